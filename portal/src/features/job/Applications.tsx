// Servers in a job's tasks, such as Jupyter, each opened at an address of its own.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import type { JobDetail } from "@/api/jobs";
import { CopyCommand } from "@/ui/Copy";
import { notifyError } from "@/ui/notices";
import { Card, Fact, Facts } from "@/ui/Page";
import { Ago, exact } from "@/ui/time";
import css from "./JobPage.module.css";

export function Applications({ job, name }: { job: JobDetail; name: string }) {
  const open = useMutation({
    mutationFn: async ({ application, tab }: { application: string; tab: Window | null }) => {
      try {
        const path = { job: name, application };
        const ticket = (await answer(http.POST("/api/v2/jobs/{job}/applications/{application}/ticket", { params: { path } }))) as Schemas["ApplicationTicket"];
        if (tab) tab.location.href = ticket.uri;
        else window.location.assign(ticket.uri);
      } catch (error) {
        tab?.close();
        throw error;
      }
    },
    onError: notifyError,
  });
  // A browser lets a page open a tab at a click only, not when the answer comes.
  const begin = (application: string) => {
    const tab = window.open("", "_blank");
    if (tab) tab.opener = null;
    open.mutate({ application, tab });
  };
  return (
    <Card>
      {job.applications.map((one) => (
        <div key={one.name} className={css.bar}>
          <Facts>
            <Fact name={i18n.t("Application")}>{one.title}</Fact>
            <Fact name={i18n.t("State")}>{words(one.state)}</Fact>
            {one.usedTime !== null && <Fact name={i18n.t("Used")}><Ago ms={one.usedTime} /></Fact>}
            {one.stopTime !== null && <Fact name={i18n.t("Stopped unless used")}>{exact(one.stopTime)}</Fact>}
          </Facts>
          <Button size="xs" disabled={one.state !== "ready"} loading={open.isPending} onClick={() => begin(one.name)}>{i18n.t("Open {title}", { title: one.title })}</Button>
          <CopyCommand words={["job", "open", name, one.name]} />
        </div>
      ))}
    </Card>
  );
}

function words(state: string): string {
  if (state === "ready") return i18n.t("ready");
  if (state === "starting") return i18n.t("starting");
  return state === "gone" ? i18n.t("gone") : i18n.t("waiting for its task");
}
