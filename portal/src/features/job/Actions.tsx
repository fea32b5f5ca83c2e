// What may be done to a job. The server decides whether a caller may; a refusal says why.
import { i18n } from "@lingui/core";
import { Button, Group, Modal } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError } from "@/api/client";
import { actOnJobs, fullName, type JobAction, type JobDetail } from "@/api/jobs";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { notify, notifyError } from "@/ui/notices";
import { isOver } from "@/ui/State";

export function Actions({ job, name }: { job: JobDetail; name: string }) {
  const [asked, setAsked] = useState<"stop" | "restart" | null>(null);
  const queries = useQueryClient();
  const full = fullName({ username: job.jobStatus.username, name: job.name });
  const act = useMutation({
    mutationFn: async (action: JobAction) => {
      const result = (await actOnJobs(action, [name])).results[0];
      if (result?.code) throw new ApiError(result.status, result);
      return result?.message ?? "";
    },
    onSuccess: (message) => notify(message),
    onError: notifyError,
    onSettled: () => {
      setAsked(null);
      void queries.invalidateQueries({ queryKey: ["job"] });
      void queries.invalidateQueries({ queryKey: ["jobs"] });
    },
  });
  const state = job.jobStatus.state;
  const verb = asked === "stop" ? i18n.t("Stop") : i18n.t("Restart");
  return (
    <>
      <LinkButton to="/submit" query={{ clone: full }} variant="default" icon="clone">{i18n.t("Clone")}</LinkButton>
      <LinkButton to="/publish" query={{ job: full }} variant="default" icon="market">{i18n.t("Publish")}</LinkButton>
      <Button size="xs" variant="default" leftSection={<Icon name="restart" size={15} />} onClick={() => setAsked("restart")}>{i18n.t("Restart")}</Button>
      {!isOver(state) && <Button size="xs" color="red" disabled={state === "STOPPING"} leftSection={<Icon name="stop" size={15} />} onClick={() => setAsked("stop")}>{i18n.t("Stop")}</Button>}
      <Modal opened={asked !== null} onClose={() => setAsked(null)} centered closeButtonProps={{ "aria-label": i18n.t("Close") }}
        title={asked === "stop" ? i18n.t("Stop {name}?", { name: job.name }) : i18n.t("Restart {name}?", { name: job.name })}>
        <p>{asked === "stop" ? i18n.t("Its tasks get SIGTERM, and are killed after their grace period. Its logs stay.") : i18n.t("It runs again from its beginning, as a new attempt. What runs now is stopped first.")}</p>
        <Group justify="space-between" mt="lg">
          <CopyCommand words={["job", asked ?? "stop", full]} />
          <Button color={asked === "stop" ? "red" : undefined} loading={act.isPending} data-autofocus onClick={() => asked && act.mutate(asked)}>{verb}</Button>
        </Group>
      </Modal>
    </>
  );
}
