// Arrays of jobs: many jobs of one file, as one row that can be opened and is stopped as one.
import { i18n } from "@lingui/core";
import { Button, Checkbox, Group, Modal } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { actOnSweep, useSweep, type JobSummary } from "@/api/jobs";
import { CopyCommand } from "@/ui/Copy";
import { Link } from "@/ui/Link";
import { Problem } from "@/ui/Loaded";
import { notify, notifyError } from "@/ui/notices";
import { isOver, StateCounts } from "@/ui/State";
import css from "./JobsPage.module.css";

interface Column {
  key: string;
  show: (job: JobSummary) => ReactNode;
}

/** What the row of an array shows in a column; its first job stands for what all have in common. */
export function SweepCell({ job, sweep, column }: { job: JobSummary; sweep: string; column: Column }) {
  const found = useSweep(column.key === "state" || column.key === "name" ? `${job.username}~${sweep}` : "").data;
  switch (column.key) {
    case "state":
      return <StateCounts states={found?.states ?? {}} />;
    case "name":
      return (
        <>
          <Link className={css.name} to="/jobs" query={{ user: job.username, sweep }}>{sweep}</Link>
          <span className={css.tag}>{found ? i18n.t("{count, plural, one {array of # job} other {array of # jobs}}", { count: found.jobs.length }) : i18n.t("array")}</span>
        </>
      );
    case "took":
    case "retries":
      return "–";
    default:
      return column.show(job);
  }
}

/** Chooses all jobs of an array. */
export function SweepChoice({ sweep, chosen, choose }: { sweep: string; chosen: ReadonlySet<string>; choose: (name: string, is: boolean) => void }) {
  const found = useSweep(sweep).data;
  const names = (found?.jobs ?? []).map((job) => `${found?.user}~${job.name}`);
  const count = names.filter((name) => chosen.has(name)).length;
  return (
    <Checkbox size="xs" aria-label={i18n.t("Choose all jobs of {name}", { name: sweep })} disabled={!names.length} checked={count > 0 && count === names.length}
      indeterminate={count > 0 && count < names.length} onChange={(event) => names.forEach((name) => choose(name, event.target.checked))} />
  );
}

/** The head of the list while an array is open. */
export function SweepBar({ user, name, leave }: { user: string; name: string; leave: () => void }) {
  const full = `${user}~${name}`;
  const found = useSweep(full);
  const [isAsked, setIsAsked] = useState(false);
  const queries = useQueryClient();
  const left = found.data?.jobs.filter((job) => !isOver(job.state)).length ?? 0;
  const stop = useMutation({
    mutationFn: () => actOnSweep("stop", user, name),
    onSuccess: (done) => {
      notify(i18n.t("{count, plural, one {Done for # job} other {Done for # jobs}}", { count: done.done }));
      const failed = done.results.find((result) => result.code);
      if (failed) notify(`${failed.job}: ${failed.message}`, "bad");
    },
    onError: notifyError,
    onSettled: () => {
      setIsAsked(false);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
    },
  });
  if (found.error) return <Problem error={found.error} again={() => void found.refetch()} />;
  return (
    <div className={css.bulk} role="region" aria-label={i18n.t("Array {name}", { name })}>
      <strong>{i18n.t("Array {name}", { name })}</strong>
      <StateCounts states={found.data?.states ?? {}} />
      <Button size="xs" color="red" variant="light" disabled={!left} onClick={() => setIsAsked(true)}>{i18n.t("Stop all")}</Button>
      <Button size="xs" variant="subtle" onClick={leave}>{i18n.t("All jobs")}</Button>
      <Modal opened={isAsked} onClose={() => setIsAsked(false)} centered title={i18n.t("{count, plural, one {Stop # job?} other {Stop # jobs?}}", { count: left })} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
        <p>{i18n.t("All jobs of {name} that are not over are stopped.", { name })}</p>
        <Group justify="space-between" mt="lg">
          <CopyCommand words={["sweep", "stop", full]} />
          <Button color="red" loading={stop.isPending} data-autofocus onClick={() => stop.mutate()}>{i18n.t("Stop all")}</Button>
        </Group>
      </Modal>
    </div>
  );
}
