// What is done to all chosen jobs; the server answers for each of them.
import { i18n } from "@lingui/core";
import { Button, Group, Modal, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { actOnJobs, type JobAction } from "@/api/jobs";
import { CopyCommand } from "@/ui/Copy";
import { notify, notifyError } from "@/ui/notices";
import css from "./JobsPage.module.css";

function question(action: JobAction, count: number): string {
  if (action === "stop") return i18n.t("{count, plural, one {Stop # job?} other {Stop # jobs?}}", { count });
  if (action === "tag") return i18n.t("{count, plural, one {Tag # job} other {Tag # jobs}}", { count });
  return i18n.t("{count, plural, one {Archive # job?} other {Archive # jobs?}}", { count });
}

export function BulkBar({ chosen, clear }: { chosen: string[]; clear: () => void }) {
  const [asked, setAsked] = useState<JobAction | null>(null);
  const [tag, setTag] = useState("");
  const queries = useQueryClient();
  const act = useMutation({
    mutationFn: (action: JobAction) => actOnJobs(action, chosen, action === "tag" ? { tag } : {}),
    onSuccess: (done) => {
      if (done.done) notify(i18n.t("{count, plural, one {Done for # job} other {Done for # jobs}}", { count: done.done }));
      const failed = done.results.filter((result) => result.code);
      if (failed[0]) notify(`${failed.map((one) => one.job).slice(0, 3).join(", ")}: ${failed[0].message}`, "bad");
      setAsked(null);
      clear();
      void queries.invalidateQueries({ queryKey: ["jobs"] });
    },
    onError: notifyError,
  });
  return (
    <div className={css.bulk} role="region" aria-label={i18n.t("Chosen jobs")}>
      <strong>{i18n.t("{count, plural, one {# job chosen} other {# jobs chosen}}", { count: chosen.length })}</strong>
      <Button size="xs" color="red" variant="light" onClick={() => setAsked("stop")}>{i18n.t("Stop")}</Button>
      <Button size="xs" variant="default" onClick={() => setAsked("tag")}>{i18n.t("Tag")}</Button>
      <Button size="xs" variant="default" onClick={() => setAsked("archive")}>{i18n.t("Archive")}</Button>
      <Button size="xs" variant="subtle" onClick={clear}>{i18n.t("Choose none")}</Button>
      <Modal opened={asked !== null} onClose={() => setAsked(null)} title={asked ? question(asked, chosen.length) : ""} centered closeButtonProps={{ "aria-label": i18n.t("Close") }}>
        <ul className={css.list}>{chosen.slice(0, 100).map((name) => <li key={name}>{name}</li>)}</ul>
        {asked === "tag" && <TextInput label={i18n.t("Tag")} value={tag} onChange={(event) => setTag(event.target.value)} mb="md" data-autofocus />}
        <Group justify="space-between">
          <CopyCommand words={asked === "tag" ? ["job", "tag", tag, ...chosen] : ["job", asked ?? "stop", ...chosen]} />
          <Button color={asked === "stop" ? "red" : undefined} loading={act.isPending} disabled={asked === "tag" && !tag} onClick={() => asked && act.mutate(asked)}>
            {asked === "stop" ? i18n.t("Stop") : asked === "tag" ? i18n.t("Tag") : i18n.t("Archive")}
          </Button>
        </Group>
      </Modal>
    </div>
  );
}
