// One job: its state and why, its tasks, logs, events and configuration, and what may be done to it.
import { i18n } from "@lingui/core";
import { Tabs } from "@mantine/core";
import { useParams } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { fullName, type JobDetail } from "@/api/jobs";
import { later } from "@/api/parts";
import { useAddress } from "@/ui/address";
import { announce } from "@/ui/announce";
import { CopyCommand } from "@/ui/Copy";
import { Link } from "@/ui/Link";
import { Loaded } from "@/ui/Loaded";
import { Card, Fact, Facts, Page } from "@/ui/Page";
import { Part } from "@/ui/Part";
import { isOver, StateBadge, stateName, type State } from "@/ui/State";
import { Ago, Span } from "@/ui/time";
import { visible } from "@/ui/visible";
import { Actions } from "./Actions";
import { Applications } from "./Applications";
import { Config } from "./Config";
import { Efficiency } from "./Efficiency";
import { Events } from "./Events";
import { Failure } from "./Failure";
import css from "./JobPage.module.css";
import { Logs } from "./Logs";
import { tasksOf, useJob, useWhy } from "./queries";
import { Tasks } from "./Tasks";
import { Timeline } from "./Timeline";
import { Use } from "./Use";
import { Why } from "./Why";

const TABS = ["tasks", "logs", "use", "terminal", "attempts", "events", "config"] as const;
const Terminal = later(() => import("./Terminal"));

export default function JobPage() {
  const { job = "" } = useParams({ strict: false }) as { job?: string };
  const [query] = useAddress();
  const found = useJob(job, query["attempt"] ?? "");
  if (!found.data) return <Page title={job.slice(job.indexOf("~") + 1)}><Card><Loaded query={found} rows={8}>{() => null}</Loaded></Card></Page>;
  return <Shown job={found.data} asked={job} />;
}

function Shown({ job, asked }: { job: JobDetail; asked: string }) {
  const [query, change] = useAddress();
  const status = job.jobStatus;
  const name = fullName({ username: status.username, name: job.name });
  const tasks = tasksOf(job);
  useStateAloud(job.name, status.state);
  return (
    <Page
      title={job.name}
      heading={<span className={css.heading}>{job.name} <StateBadge state={status.state} /></span>}
      lead={<>{status.username} · <Link to="/jobs" query={{ vc: status.virtualCluster }}>{status.virtualCluster}</Link>{job.tags.map((tag) => <Link key={tag} className={css.tag} to="/jobs" query={{ tag }}>{visible(tag)}</Link>)}</>}
      actions={<><CopyCommand words={["job", "show", name]} /><Actions job={job} name={asked} /></>}
    >
      {status.state === "WAITING" && <Why job={asked} />}
      {status.state === "FAILED" && <Failure job={job} />}
      {isOver(status.state) && <Efficiency job={asked} name={name} isOver brief />}
      <Card>
        <Facts>
          <Fact name={i18n.t("Submitted")}><Ago ms={status.submissionTime} /></Fact>
          <Fact name={i18n.t("Waited")}><Span from={status.submissionTime} to={status.launchedTime ?? status.completedTime} /></Fact>
          <Fact name={i18n.t("Ran for")}><Span from={status.state === "WAITING" ? null : status.launchedTime} to={status.completedTime} /></Fact>
          <Fact name={i18n.t("Tasks")}>{tasks.length}</Fact>
          <Fact name={i18n.t("Retries")}>{status.retries}</Fact>
          <Fact name={i18n.t("Priority")}>{job.jobPriority ?? "default"}</Fact>
          {job.timeLimitMinutes !== null && <Fact name={i18n.t("Time limit")}>{i18n.t("{minutes} min", { minutes: job.timeLimitMinutes })}</Fact>}
          <Fact name={i18n.t("Attempt")}><Attempts job={job} chosen={query["attempt"] ?? ""} onChoose={(attempt) => change({ attempt })} /></Fact>
        </Facts>
        {status.state === "RUNNING" && (job.interruptible || job.jobPriority === "oppo") && <Borrowed job={asked} />}
      </Card>
      {job.applications.length > 0 && <Applications job={job} name={name} />}
      <Tabs value={TABS.find((tab) => tab === query["tab"]) ?? "tasks"} onChange={(tab) => change({ tab: tab === "tasks" ? "" : (tab ?? "") })} keepMounted={false}>
        <Tabs.List className={css.tabs}>
          <Tabs.Tab value="tasks">{i18n.t("Tasks")}</Tabs.Tab>
          <Tabs.Tab value="logs">{i18n.t("Logs")}</Tabs.Tab>
          <Tabs.Tab value="use">{i18n.t("Use")}</Tabs.Tab>
          <Tabs.Tab value="terminal">{i18n.t("Terminal")}</Tabs.Tab>
          <Tabs.Tab value="attempts">{i18n.t("Attempts")}</Tabs.Tab>
          <Tabs.Tab value="events">{i18n.t("Events")}</Tabs.Tab>
          <Tabs.Tab value="config">{i18n.t("Configuration")}</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="tasks"><Tasks tasks={tasks} name={name} attempt={status.attemptId} /></Tabs.Panel>
        <Tabs.Panel value="logs"><Logs job={asked} tasks={tasks} name={name} isOver={isOver(status.state)} /></Tabs.Panel>
        <Tabs.Panel value="use"><Use job={asked} name={name} tasks={tasks} isOver={isOver(status.state)} /></Tabs.Panel>
        <Tabs.Panel value="terminal"><Part><Terminal tasks={tasks} name={name} /></Part></Tabs.Panel>
        <Tabs.Panel value="attempts"><Timeline job={asked} /></Tabs.Panel>
        <Tabs.Panel value="events"><Events job={asked} /></Tabs.Panel>
        <Tabs.Panel value="config"><Config job={asked} name={job.name} /></Tabs.Panel>
      </Tabs>
    </Page>
  );
}

/** Says what the job uses without a guarantee; nothing while all of it is guaranteed. */
function Borrowed({ job }: { job: string }) {
  const borrowed = useWhy(job, true).data?.borrowed;
  if (!borrowed?.gpu && !borrowed?.cpu) return null;
  const amount = borrowed.gpu
    ? i18n.t("{count, plural, one {# GPU} other {# GPUs}}", { count: borrowed.gpu })
    : i18n.t("{count, plural, one {# CPU} other {# CPUs}}", { count: borrowed.cpu });
  return <p className={css.small}>{i18n.t("It borrows {amount}, until a job with a guarantee needs them.", { amount })}</p>;
}

/** Says a state that a job reached while its page is open. */
function useStateAloud(name: string, state: State): void {
  const seen = useRef(state);
  useEffect(() => {
    if (seen.current !== state) announce(i18n.t("{name}: {state}", { name, state: stateName(state) }));
    seen.current = state;
  }, [name, state]);
}

// The API counts attempts from 0, people and the command line from 1.
function Attempts({ job, chosen, onChoose }: { job: JobDetail; chosen: string; onChoose: (attempt: string) => void }) {
  const last = job.jobStatus.retries + job.restarts.length;
  if (!last) return <>1</>;
  return (
    <select className={css.select} aria-label={i18n.t("Attempt")} value={chosen} onChange={(event) => onChoose(event.target.value)}>
      <option value="">{i18n.t("newest")}</option>
      {Array.from({ length: last + 1 }, (_, number) => <option key={number} value={number}>{number + 1}</option>)}
    </select>
  );
}
