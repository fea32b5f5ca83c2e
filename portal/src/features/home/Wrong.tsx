// What looks wrong, for administrators, with what to do about it beside: alerts, bad hardware, and jobs that run for days.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { answer, ApiError, http, type Schemas } from "@/api/client";
import { useNodes } from "@/api/cluster";
import { actOnJobs, fullName, useJobPage } from "@/api/jobs";
import { SLOW_MS } from "@/api/queries";
import { Ask } from "@/ui/Ask";
import { Link } from "@/ui/Link";
import { LinkButton } from "@/ui/LinkButton";
import { notify } from "@/ui/notices";
import { Card } from "@/ui/Page";
import { Span } from "@/ui/time";
import css from "./HomePage.module.css";

const DAY_MS = 86_400_000;
/** As OpenPAI's portal counted them. */
const OLD_DAYS = 5;
const SHOWN_MAX = 5;

function useAlerts() {
  return useQuery({ queryKey: ["alerts", "now"], queryFn: () => answer(http.GET("/api/v2/alerts")) as Promise<Schemas["Alert"][]>, refetchInterval: SLOW_MS });
}

export function Wrong() {
  const [stopped, setStopped] = useState("");
  const queries = useQueryClient();
  const bad = (useNodes().data ?? []).filter((node) => !node.healthy || node.badDevices.length > 0);
  const isListed = (name: string | undefined) => bad.some((node) => node.name === name);
  const alerts = (useAlerts().data ?? []).filter((one) => one.status.state !== "suppressed" && !isListed(one.labels["node_name"]));
  const oldest = useJobPage({ state: "RUNNING", order: "submissionTime,ASC" }, SHOWN_MAX).data?.data ?? [];
  const old = oldest.filter((job) => job.launchedTime && Date.now() - job.launchedTime > OLD_DAYS * DAY_MS);
  if (!alerts.length && !bad.length && !old.length) return null;
  const stop = async (job: string) => {
    const result = (await actOnJobs("stop", [job])).results[0];
    if (result?.code) throw new ApiError(result.status, result);
    notify(result?.message ?? "");
    await queries.invalidateQueries({ queryKey: ["jobs"] });
  };
  return (
    <Card title={i18n.t("What looks wrong")} aside={<Link to="/alerts">{i18n.t("Alerts")}</Link>} flush>
      <ul className={css.wrong}>
        {bad.slice(0, SHOWN_MAX).map((node) => (
          <Line key={node.name} what={<><Link to="/cluster" query={{ node: node.name }}>{node.name}</Link> {node.healthy ? i18n.t("{count, plural, one {has # bad GPU} other {has # bad GPUs}}", { count: node.badDevices.length }) : i18n.t("is not healthy")}</>}
            action={<LinkButton to="/cluster" query={{ node: node.name }} size="compact-xs" variant="default">{i18n.t("Look at it")}</LinkButton>} />
        ))}
        {alerts.slice(0, SHOWN_MAX).map((one) => (
          <Line key={one.fingerprint} what={<><strong>{one.labels["alertname"]}</strong>: {one.annotations.summary}</>}
            action={<AlertAction labels={one.labels} stop={setStopped} />} />
        ))}
        {old.map((job) => (
          <Line key={job.debugId} what={<><Link to={`/jobs/${fullName(job)}`}>{fullName(job)}</Link> {i18n.t("has run for")} <Span from={job.launchedTime} to={null} /></>}
            action={<Stop job={fullName(job)} stop={setStopped} />} />
        ))}
      </ul>
      {stopped && (
        <Ask title={i18n.t("Stop {name}?", { name: stopped })} verb={i18n.t("Stop")} command={["job", "stop", stopped]} onClose={() => setStopped("")} act={() => stop(stopped)}>
          <p>{i18n.t("Its tasks get SIGTERM, and are killed after their grace period. Its logs stay.")}</p>
        </Ask>
      )}
    </Card>
  );
}

interface Stopping {
  stop: (job: string) => void;
}

/** Leads to what an alert is about; a job can be stopped at once. */
function AlertAction({ labels, stop }: { labels: Readonly<Record<string, string>> } & Stopping) {
  const job = labels["job_name"];
  const node = labels["node_name"];
  const [to, query] = job ? [`/jobs/${job}`, {}] : node ? ["/cluster", { node }] : ["/alerts", {}];
  return (
    <span className={css.acts}>
      <LinkButton to={to} query={query} size="compact-xs" variant="default">{i18n.t("Look at it")}</LinkButton>
      {job && <Stop job={job} stop={stop} />}
    </span>
  );
}

function Stop({ job, stop }: { job: string } & Stopping) {
  return <Button size="compact-xs" color="red" variant="light" aria-label={i18n.t("Stop {name}", { name: job })} onClick={() => stop(job)}>{i18n.t("Stop")}</Button>;
}

function Line({ what, action }: { what: ReactNode; action: ReactNode }) {
  return <li><span>{what}</span>{action}</li>;
}
