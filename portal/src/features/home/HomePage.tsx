// What a user wants to know first: their jobs, what they may use, and what is free now.
import { i18n } from "@lingui/core";
import { useQuery } from "@tanstack/react-query";
import { answer, http } from "@/api/client";
import { useNodes, useVirtualClusters, type Node } from "@/api/cluster";
import { fullName, useJobPage, useSweep, type JobSummary } from "@/api/jobs";
import { whileLive } from "@/api/live";
import { LIVE_MS } from "@/api/queries";
import { useMe, type User } from "@/api/session";
import { CopyCommand } from "@/ui/Copy";
import { Gauge } from "@/ui/Gauge";
import { Link } from "@/ui/Link";
import { LinkButton } from "@/ui/LinkButton";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { StateBadge, StateCounts, StateIcon, stateName, type State } from "@/ui/State";
import { Ago, Span } from "@/ui/time";
import { Announcements } from "./Announcements";
import css from "./HomePage.module.css";
import { Week } from "./Week";
import { Wrong } from "./Wrong";

const COUNTED: readonly State[] = ["RUNNING", "WAITING", "FAILED", "SUCCEEDED", "STOPPED"];

export default function HomePage() {
  const me = useMe().data;
  if (!me) return null;
  return (
    <Page
      title={i18n.t("Home")}
      heading={i18n.t("Hello, {name}", { name: me.username })}
      lead={<InUse me={me} />}
      actions={<><CopyCommand words={["job", "list"]} /><LinkButton to="/submit" icon="submit">{i18n.t("Submit a job")}</LinkButton></>}
    >
      <Announcements />
      <div className={css.counts}>
        {COUNTED.map((state) => <Count key={state} state={state} user={me.username} />)}
      </div>
      <div className={css.columns}>
        <div className={css.side}>
          {me.admin && <Wrong />}
          <Recent me={me} />
          <Week user={me.username} />
        </div>
        <div className={css.side}>
          <Shares me={me} />
          <Free />
        </div>
      </div>
    </Page>
  );
}

function Count({ state, user }: { state: State; user: string }) {
  const page = useJobPage({ username: user, state }, 0);
  return (
    <Link to="/jobs" query={{ user, state }} className={css.count}>
      <StateIcon state={state} size={22} />
      <span className={css.number}>{page.data ? page.data.totalCount.toLocaleString(i18n.locale) : "–"}</span>
      <span className={css.word}>{stateName(state)}</span>
    </Link>
  );
}

/** Beyond so many running jobs of one user, the sum of their GPUs is not shown. */
const SUMMED_MAX = 500;

/** The GPUs that the user's jobs hold, and those that were promised to their virtual clusters, or the limit of a quota. */
function InUse({ me }: { me: User }) {
  const running = useJobPage({ username: me.username, state: "RUNNING" }, SUMMED_MAX).data;
  const all = useVirtualClusters().data ?? {};
  const quotas = useQuery({
    queryKey: ["quotas", "me"],
    queryFn: () => answer(http.GET("/api/v2/quotas/me")),
    refetchInterval: () => whileLive(5 * LIVE_MS),
  });
  const own = quotas.data ?? [];
  const limited = own.find((quota) => quota.gpusRunning !== null);
  if (!limited) {
    const promised = Object.entries(all).reduce((sum, [name, vc]) => sum + (me.admin || me.virtualCluster.includes(name) ? vc.resourcesTotal.gpu : 0), 0);
    if (!running || running.totalCount > SUMMED_MAX || !promised) return <>{i18n.t("Your jobs, your virtual clusters, and what is free now.")}</>;
    const used = running.data.reduce((sum, job) => sum + job.totalGpuNumber, 0);
    return <>{i18n.t("{used, plural, one {Your jobs use # GPU} other {Your jobs use # GPUs}}; {promised, plural, one {# is} other {# are}} promised to your virtual clusters.", { used, promised })}</>;
  }
  return <>{i18n.t("Your jobs hold {used} of the {limit} GPUs that you may use at once.", { used: limited.used.gpusRunning, limit: limited.gpusRunning ?? 0 })}</>;
}

function Recent({ me }: { me: User }) {
  const page = useJobPage({ username: me.username, foldSweeps: true }, 8);
  return (
    <Card title={i18n.t("My latest jobs")} aside={<Link to="/jobs" query={{ user: me.username }}>{i18n.t("All my jobs")}</Link>} flush>
      <Loaded query={page} rows={6}>
        {(found) => (found.data.length ? <ul className={css.jobs}>{found.data.map((job) => <Row key={job.debugId} job={job} />)}</ul> : <First />)}
      </Loaded>
    </Card>
  );
}

function Row({ job }: { job: JobSummary }) {
  if (job.sweep) return <ArrayRow job={job} array={job.sweep} />;
  return (
    <li>
      <Link to={`/jobs/${fullName(job)}`} className={css.job}>
        <StateBadge state={job.state} />
        <span className={css.name}>{job.name}</span>
        <span className={css.dim}>{job.virtualCluster}{job.totalGpuNumber > 0 && ` · ${i18n.t("{count, plural, one {# GPU} other {# GPUs}}", { count: job.totalGpuNumber })}`}</span>
        <span className={css.when}>
          <Ago ms={job.submissionTime} />
          {job.launchedTime && <small><Span from={job.launchedTime} to={job.completedTime} /></small>}
        </span>
      </Link>
    </li>
  );
}

/** An array of jobs; the first of them has what all have in common. */
function ArrayRow({ job, array }: { job: JobSummary; array: string }) {
  const found = useSweep(`${job.username}~${array}`).data;
  return (
    <li>
      <Link to="/jobs" query={{ user: job.username, sweep: array }} className={css.job}>
        <StateCounts states={found?.states ?? {}} />
        <span className={css.name}>{array}</span>
        <span className={css.dim}>{found ? i18n.t("{count, plural, one {array of # job} other {array of # jobs}}", { count: found.jobs.length }) : i18n.t("array")} · {job.virtualCluster}</span>
        <span className={css.when}><Ago ms={job.submissionTime} /></span>
      </Link>
    </li>
  );
}

function First() {
  return (
    <Note icon="submit" title={i18n.t("Run your first job")}
      actions={<LinkButton to="/submit" icon="submit">{i18n.t("Start from an example")}</LinkButton>}>
      {i18n.t("A job is a command, an image, and the CPUs and GPUs it needs. The platform finds the place, keeps the logs, and says what went wrong.")}
    </Note>
  );
}

function Shares({ me }: { me: User }) {
  const query = useVirtualClusters();
  return (
    <Card title={i18n.t("My virtual clusters")} aside={<Link to="/cluster">{i18n.t("Cluster")}</Link>}>
      <Loaded query={query}>
        {(all) => {
          const names = Object.keys(all).filter((name) => me.admin || me.virtualCluster.includes(name)).sort();
          if (!names.length)
            return <Note icon="lock" title={i18n.t("No virtual cluster yet")}>{i18n.t("Ask an administrator to add you to a group that has one.")}</Note>;
          return (
            <div className={css.shares}>
              {names.map((name) => {
                const vc = all[name];
                if (!vc) return null;
                return (
                  <div key={name}>
                    <p className={css.vc}>
                      <Link to="/jobs" query={{ vc: name, state: "RUNNING,WAITING" }}>{name}</Link>
                      <span className={css.dim}>{i18n.t("{count, plural, =0 {nothing waiting} other {# waiting}}", { count: vc.waitingGangs })}</span>
                    </p>
                    <Gauge vc={vc} />
                  </div>
                );
              })}
            </div>
          );
        }}
      </Loaded>
    </Card>
  );
}

/** Returns how many healthy nodes have each number of free devices, from none to all. */
export function freeCounts(nodes: readonly Node[]): { unit: "gpus" | "cpus"; counts: [number, number][] } {
  const usable = nodes.filter((node) => node.healthy && !node.drained);
  const unit = usable.some((node) => node.gpus.total > 0) ? "gpus" : "cpus";
  const counts = new Map<number, number>();
  for (const node of usable) {
    const bad = unit === "gpus" ? node.badDevices.length : 0;
    const free = Math.max(node[unit].total - node[unit].used - bad, 0);
    counts.set(free, (counts.get(free) ?? 0) + 1);
  }
  return { unit, counts: [...counts].sort(([one], [other]) => one - other) };
}

function Free() {
  return (
    <Card title={i18n.t("Free now")}>
      <Loaded query={useNodes()}>
        {(nodes) => {
          const { unit, counts } = freeCounts(nodes);
          const most = Math.max(...counts.map(([, count]) => count), 1);
          if (!counts.length) return <Note icon="warn" title={i18n.t("No healthy node")}>{i18n.t("Jobs wait until a node is back.")}</Note>;
          return (
            <ul className={css.free}>
              {counts.slice(-9).map(([free, count]) => (
                <li key={free}>
                  <span>{unit === "gpus" ? i18n.t("{free, plural, one {# GPU} other {# GPUs}}", { free }) : i18n.t("{free, plural, one {# CPU} other {# CPUs}}", { free })}</span>
                  <span className={css.track}><span className={css.fill} data-none={free === 0 || undefined} style={{ width: `${(100 * count) / most}%` }} /></span>
                  <span className={css.nodes}>{i18n.t("{count, plural, one {# node} other {# nodes}}", { count })}</span>
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
    </Card>
  );
}
