// The logs of a task: followed while it runs, searched, and downloaded whole.
import { i18n } from "@lingui/core";
import { Button, Checkbox, TextInput } from "@mantine/core";
import { useEffect, useMemo, useState } from "react";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Note } from "@/ui/Loaded";
import { notifyError } from "@/ui/notices";
import { useWindow } from "@/ui/window";
import css from "./JobPage.module.css";
import { useLog } from "./lines";
import type { Task } from "./queries";

const STREAMS = ["stdout", "stderr", "all", "runtime"] as const;
const HEIGHT = 20;

function streamName(stream: string): string {
  if (stream === "all") return i18n.t("stdout and stderr");
  return stream === "runtime" ? i18n.t("platform") : stream;
}

export function Logs({ tasks, name, isOver }: { tasks: Task[]; name: string; isOver: boolean }) {
  const [query, change] = useAddress();
  const withLogs = tasks.filter((task) => task.containerLog);
  const chosen = query["task"] ?? "";
  const task = withLogs.find((one) => `${one.role}/${one.taskIndex}` === chosen) ?? withLogs[0];
  const stream = STREAMS.find((one) => one === query["log"]) ?? "stdout";
  if (!task?.containerLog)
    return <Note icon="jobs" title={i18n.t("No logs yet")}>{isOver ? i18n.t("None of its tasks started.") : i18n.t("They appear here as soon as a task starts.")}</Note>;
  return (
    <>
      <div className={css.bar}>
        <select className={css.select} aria-label={i18n.t("Task")} value={`${task.role}/${task.taskIndex}`} onChange={(event) => change({ task: event.target.value })}>
          {withLogs.slice(0, 2_000).map((one) => <option key={`${one.role}/${one.taskIndex}`} value={`${one.role}/${one.taskIndex}`}>{one.role}-{one.taskIndex}</option>)}
        </select>
        <select className={css.select} aria-label={i18n.t("Log")} value={stream} onChange={(event) => change({ log: event.target.value === "stdout" ? "" : event.target.value })}>
          {STREAMS.map((one) => <option key={one} value={one}>{streamName(one)}</option>)}
        </select>
        <Button component="a" size="xs" variant="default" href={`${task.containerLog}/${stream}`} download={`${name}-${task.role}-${task.taskIndex}-${stream}.log`} leftSection={<Icon name="download" size={15} />}>{i18n.t("Download")}</Button>
        <CopyCommand words={["job", "logs", name, "--role", task.role, "--index", String(task.taskIndex), "-f"]} />
      </div>
      <Viewer key={`${task.containerLog}/${stream}`} path={task.containerLog} stream={stream} />
    </>
  );
}

function Viewer({ path, stream }: { path: string; stream: string }) {
  const { log, loadEarlier } = useLog(path, stream);
  const [isFollowed, setIsFollowed] = useState(true);
  const [word, setWord] = useState("");
  const [hit, setHit] = useState(0);
  const view = useWindow(log.lines.length, HEIGHT);
  const hits = useMemo(() => {
    const lower = word.toLowerCase();
    return lower ? log.lines.flatMap((line, index) => (line.text.toLowerCase().includes(lower) ? [index] : [])) : [];
  }, [log.lines, word]);
  const at = hits.length ? hits[((hit % hits.length) + hits.length) % hits.length] : undefined;
  useEffect(() => {
    const box = view.box.current;
    if (box && isFollowed && !word) box.scrollTop = box.scrollHeight;
  }, [log.lines, isFollowed, word, view.box]);
  useEffect(() => {
    const box = view.box.current;
    if (box && at !== undefined) box.scrollTop = Math.max(at * HEIGHT - box.clientHeight / 2, 0);
  }, [at, view.box]);
  const isHit = new Set(hits);
  const rows = log.lines.slice(view.first, view.last + 1);
  const onScroll = () => {
    view.onScroll();
    const box = view.box.current;
    if (box && box.scrollTop + box.clientHeight < box.scrollHeight - 60) setIsFollowed(false);
  };
  return (
    <>
      <div className={css.bar}>
        <TextInput size="xs" leftSection={<Icon name="search" size={15} />} placeholder={i18n.t("Search what is loaded")} aria-label={i18n.t("Search what is loaded")} value={word}
          onChange={(event) => { setWord(event.target.value); setHit(0); }} onKeyDown={(event) => event.key === "Enter" && setHit(hit + (event.shiftKey ? -1 : 1))} />
        {word && <span className={css.state} role="status">{hits.length ? i18n.t("{at} of {count}", { at: (((hit % hits.length) + hits.length) % hits.length) + 1, count: hits.length }) : i18n.t("not found")}</span>}
        <Checkbox size="xs" label={i18n.t("Follow")} checked={isFollowed} onChange={(event) => setIsFollowed(event.target.checked)} />
        {log.start > 0 && stream !== "all" && <Button size="xs" variant="subtle" onClick={() => void loadEarlier().catch(notifyError)}>{i18n.t("Load earlier lines")}</Button>}
        <span className={css.state} role="status">{statusOf(log.status)}</span>
      </div>
      <div ref={view.box} className={css.log} onScroll={onScroll} tabIndex={0} role="log" aria-live="off" aria-label={i18n.t("Log")}>
        <div style={{ height: view.drawn, position: "relative" }}>
          {rows.map((line, index) => {
            const number = view.first + index;
            return (
              <div key={number} className={css.line} data-stream={stream === "all" ? line.stream : undefined} data-hit={isHit.has(number) || undefined} data-at={number === at || undefined}
                style={{ transform: `translateY(${view.topOf(number)}px)` }}>
                {line.text || " "}
              </div>
            );
          })}
        </div>
        {log.status === "missing" && <Note icon="search" title={i18n.t("This log is not there")}>{i18n.t("It was removed, or you may not read it.")}</Note>}
        {log.status === "ended" && !log.lines.length && <Note icon="jobs" title={i18n.t("The task printed nothing here")} />}
      </div>
    </>
  );
}

function statusOf(status: string): string {
  if (status === "live") return i18n.t("live");
  if (status === "ended") return i18n.t("complete");
  return status === "connecting" ? i18n.t("connecting…") : "";
}
