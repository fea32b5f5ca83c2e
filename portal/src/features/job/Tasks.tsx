// The tasks of an attempt: where each runs, on what, and how it ended.
import { i18n } from "@lingui/core";
import { Button, TextInput } from "@mantine/core";
import { useMemo, useState } from "react";
import { useAddress } from "@/ui/address";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { CopyCommand } from "@/ui/Copy";
import { StateBadge, STATES, stateName } from "@/ui/State";
import { Span } from "@/ui/time";
import { useWindow } from "@/ui/window";
import css from "./JobPage.module.css";
import { saved } from "@/ui/saving";
import type { Task } from "./queries";

/** Returns the exit of a task in words. */
function exitOf(task: Task): string {
  if (task.containerExitCode === null) return "";
  const phrase = task.containerExitSpec?.phrase;
  return phrase && task.containerExitCode !== 0 ? `${task.containerExitCode} ${phrase}` : String(task.containerExitCode);
}

function portsOf(task: Task): string {
  return Object.entries(task.containerPorts).map(([name, port]) => `${name} ${port}`).join(", ");
}

function csvOf(tasks: readonly Task[]): string {
  const cell = (value: unknown) => {
    const text = String(value ?? "");
    return `"${(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  };
  const heads = ["role", "index", "state", "node", "ip", "gpus", "ports", "retries", "started", "ended", "exit"];
  const time = (ms: number | null) => (ms ? new Date(ms).toISOString() : "");
  const rows = tasks.map((task) => [task.role, task.taskIndex, task.taskState, task.containerNodeName, task.containerIp, task.containerGpus, portsOf(task), task.retries, time(task.launchedTime), time(task.completedTime), exitOf(task)]);
  return [heads, ...rows].map((row) => row.map(cell).join(",")).join("\r\n");
}

export function Tasks({ tasks, name, attempt }: { tasks: Task[]; name: string; attempt: number }) {
  const [query, change] = useAddress();
  const [word, setWord] = useState("");
  const state = query["tasks"] ?? "";
  const shown = useMemo(() => {
    const lower = word.trim().toLowerCase();
    return tasks.filter((task) =>
      (!state || task.taskState === state) &&
      (!lower || `${task.role}-${task.taskIndex} ${task.containerNodeName ?? ""} ${task.containerIp ?? ""} ${exitOf(task)}`.toLowerCase().includes(lower)));
  }, [tasks, state, word]);
  const view = useWindow(shown.length, 42);
  const rows = shown.slice(view.first, view.last + 1);
  return (
    <>
      <div className={css.bar}>
        <TextInput size="xs" leftSection={<Icon name="search" size={15} />} placeholder={i18n.t("Task, node or exit")} aria-label={i18n.t("Task, node or exit")} value={word} onChange={(event) => setWord(event.target.value)} />
        <select className={css.select} aria-label={i18n.t("State")} value={state} onChange={(event) => change({ tasks: event.target.value })}>
          <option value="">{i18n.t("All states")}</option>
          {STATES.map((one) => <option key={one} value={one}>{stateName(one)}</option>)}
        </select>
        <Button size="xs" variant="default" leftSection={<Icon name="download" size={15} />} onClick={() => saved(`${name}-${attempt}.csv`, csvOf(shown), "text/csv")}>CSV</Button>
        <CopyCommand words={["job", "show", name]} />
        <span className={css.state} role="status">{i18n.t("{count, plural, one {# task} other {# tasks}}", { count: shown.length })}</span>
      </div>
      <div ref={view.box} className={css.table} onScroll={view.onScroll} tabIndex={0} role="table" aria-label={i18n.t("Tasks")} aria-rowcount={shown.length + 1}>
        <div role="rowgroup"><div className={css.heads} role="row">
          {[i18n.t("Task"), i18n.t("State"), i18n.t("Node"), i18n.t("GPUs"), i18n.t("Ports"), i18n.t("Ran for"), i18n.t("Exit"), i18n.t("Logs")].map((head) => <span key={head} role="columnheader">{head}</span>)}
        </div></div>
        <div className={css.inner} role="rowgroup" style={{ height: view.drawn }}>
          {rows.map((task, index) => (
            <div key={`${task.role}/${task.taskIndex}`} className={css.row} role="row" aria-rowindex={view.first + index + 2} style={{ transform: `translateY(${view.topOf(view.first + index)}px)` }}>
              <span role="cell" className={css.task}>{task.role}-{task.taskIndex}</span>
              <span role="cell"><StateBadge state={task.taskState} /></span>
              <span role="cell" title={task.containerIp ?? ""}>{task.containerNodeName ?? "–"}</span>
              <span role="cell">{task.containerGpus || "–"}</span>
              <span role="cell" title={portsOf(task)}>{portsOf(task) || "–"}</span>
              <span role="cell"><Span from={task.currentAttemptLaunchedTime} to={task.currentAttemptCompletedTime} /></span>
              <span role="cell" title={task.containerExitDiagnostics ?? ""}>{exitOf(task) || "–"}</span>
              <span role="cell">{task.containerLog ? <Link to="." query={{ ...query, tab: "logs", task: `${task.role}/${task.taskIndex}` }}>{i18n.t("Logs")}</Link> : "–"}</span>
            </div>
          ))}
        </div>
      </div>
    </>
  );
}
