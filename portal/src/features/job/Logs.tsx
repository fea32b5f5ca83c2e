// The logs of a task: which task and stream, the file, and the lines.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { answerText } from "@/api/client";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Note } from "@/ui/Loaded";
import { notifyError } from "@/ui/notices";
import css from "./JobPage.module.css";
import { LogViewer } from "./LogViewer";
import { Progress } from "./Progress";
import type { Task } from "./queries";

const STREAMS = ["stdout", "stderr", "all", "runtime"] as const;

function streamName(stream: string): string {
  if (stream === "all") return i18n.t("stdout and stderr");
  return stream === "runtime" ? i18n.t("platform") : stream;
}

/** Saves a whole log: the browser reads it by itself, at an address that is valid for this log and for two minutes. */
async function download(path: string, stream: string): Promise<void> {
  const { text } = await answerText(path);
  const { locations } = JSON.parse(text) as { locations: { name: string; uri: string }[] };
  const link = document.createElement("a");
  link.href = `${locations.find((one) => one.name === stream)?.uri ?? ""}&download=true`;
  link.download = "";
  link.click();
}

export function Logs({ job, tasks, name, isOver }: { job: string; tasks: Task[]; name: string; isOver: boolean }) {
  const [query, change] = useAddress();
  const withLogs = tasks.filter((task) => task.containerLog);
  const chosen = query["task"] ?? "";
  const task = withLogs.find((one) => `${one.role}/${one.taskIndex}` === chosen) ?? withLogs[0];
  const stream = STREAMS.find((one) => one === query["log"]) ?? "stdout";
  const save = useMutation({ mutationFn: () => download(task?.containerLog ?? "", stream), onError: notifyError });
  if (!task?.containerLog)
    return <Note icon="jobs" title={i18n.t("No logs yet")}>{isOver ? i18n.t("None of its tasks started.") : i18n.t("They appear here as soon as a task starts.")}</Note>;
  return (
    <>
      <div className={css.bar}>
        <select className={css.select} aria-label={i18n.t("Task")} value={`${task.role}/${task.taskIndex}`} onChange={(event) => change({ task: event.target.value, at: "" })}>
          {withLogs.slice(0, 2_000).map((one) => <option key={`${one.role}/${one.taskIndex}`} value={`${one.role}/${one.taskIndex}`}>{one.role}-{one.taskIndex}</option>)}
        </select>
        <select className={css.select} aria-label={i18n.t("Log")} value={stream} onChange={(event) => change({ log: event.target.value === "stdout" ? "" : event.target.value, at: "" })}>
          {STREAMS.map((one) => <option key={one} value={one}>{streamName(one)}</option>)}
        </select>
        <Button size="xs" variant="default" loading={save.isPending} onClick={() => save.mutate()} leftSection={<Icon name="download" size={15} />}>{i18n.t("Download")}</Button>
        <CopyCommand words={["job", "logs", name, "--role", task.role, "--index", String(task.taskIndex), "-f"]} />
      </div>
      <div className={css.beside}>
        <div className={css.beforehand}><LogViewer key={`${task.containerLog}/${stream}`} path={task.containerLog} stream={stream} /></div>
        <Progress job={job} isOver={isOver} />
      </div>
    </>
  );
}
