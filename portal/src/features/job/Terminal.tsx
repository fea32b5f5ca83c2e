// A terminal in a running task. Its library is loaded with this part of the page only.
import "@xterm/xterm/css/xterm.css";
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { FitAddon } from "@xterm/addon-fit";
import { Terminal as Xterm, type ITheme } from "@xterm/xterm";
import { useEffect, useRef, useState } from "react";
import { ApiError, answer, own, type Schemas } from "@/api/client";
import { useAddress } from "@/ui/address";
import { copy, CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Note, Problem } from "@/ui/Loaded";
import { notify } from "@/ui/notices";
import css from "./JobPage.module.css";
import { useSsh, type Task } from "./queries";
import { Shell, type Ended } from "./shell";
import { allowScriptedStyles } from "./scriptedStyles";

const LINES_KEPT = 10_000;

export default function Terminal({ tasks, name }: { tasks: Task[]; name: string }) {
  const [query, change] = useAddress();
  const running = tasks.filter((task) => task.taskState === "RUNNING" && task.containerLog);
  const task = running.find((one) => `${one.role}/${one.taskIndex}` === query["task"]) ?? running[0];
  const [session, setSession] = useState(0);
  if (!task?.containerLog) return <Note icon="terminal" title={i18n.t("No task runs")}>{i18n.t("A terminal opens in a task that runs.")}</Note>;
  const place = `${task.role}/${task.taskIndex}`;
  return (
    <>
      <div className={css.bar}>
        <select className={css.select} aria-label={i18n.t("Task")} value={place} onChange={(event) => change({ task: event.target.value })}>
          {running.slice(0, 2_000).map((one) => <option key={`${one.role}/${one.taskIndex}`} value={`${one.role}/${one.taskIndex}`}>{one.role}-{one.taskIndex}</option>)}
        </select>
        <Button size="xs" variant="default" onClick={() => setSession(session + 1)}>{i18n.t("New session")}</Button>
        <CopyCommand words={["job", "exec", name, "--role", task.role, "--index", String(task.taskIndex)]} />
        <Ssh name={name} task={task} />
        <span className={css.state}>{i18n.t("Ctrl+Shift+X leaves the terminal.")}</span>
      </div>
      <Session key={`${task.containerLog}#${session}`} path={task.containerLog.replace(/logs$/, "exec")} label={i18n.t("Terminal in {task}", { task: `${task.role}-${task.taskIndex}` })} again={() => setSession(session + 1)} />
    </>
  );
}

/** The command with which an SSH client reaches the task: through the gateway, or an SSH server of its own. */
function Ssh({ name, task }: { name: string; task: Task }) {
  const found = useSsh(name).data;
  const isIt = (one: { taskRoleName: string; taskIndex: number }) => one.taskRoleName === task.role && one.taskIndex === task.taskIndex;
  const command = (found?.gateway?.find(isIt) ?? found?.containers.find(isIt))?.command;
  if (!command) return null;
  return <Button size="xs" variant="default" leftSection={<Icon name="copy" size={15} />} title={command} onClick={() => void copy(command).then(() => notify(i18n.t("Copied: {text}", { text: command })))}>{i18n.t("Copy the SSH command")}</Button>;
}

async function ticket(path: string): Promise<string> {
  const asked = fetch(path, { method: "POST", headers: own() });
  const found = await answer(asked.then(async (response) => {
    const body = (await response.json()) as Schemas["ShellTicket"];
    return response.ok ? { data: body, response } : { error: body, response };
  }));
  return found.uri;
}

function themeOf(host: HTMLElement): ITheme {
  const style = getComputedStyle(host);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const isDark = document.documentElement.dataset["mantineColorScheme"] === "dark";
  return {
    background: colour("--pai-code"), foreground: colour("--pai-text"), cursor: colour("--pai-accent"), selectionBackground: isDark ? "#3a4668" : "#c8d3fa",
    ...(isDark ? {} : { black: "#1b2330", red: "#b42318", green: "#146c3a", yellow: "#855000", blue: "#1d5fb8", magenta: "#8f2d9b", cyan: "#0b6b78", white: "#586172", brightBlack: "#586172", brightWhite: "#1b2330" }),
  };
}

function Session({ path, label, again }: { path: string; label: string; again: () => void }) {
  const host = useRef<HTMLDivElement>(null);
  const [ended, setEnded] = useState<Ended | null>(null);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const forbidAgain = allowScriptedStyles();
    const terminal = new Xterm({
      fontFamily: "ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace", fontSize: 13,
      scrollback: LINES_KEPT, theme: themeOf(element), screenReaderMode: true, minimumContrastRatio: 4.5, cursorBlink: false,
    });
    const fit = new FitAddon();
    terminal.loadAddon(fit);
    terminal.open(element);
    terminal.textarea?.setAttribute("aria-label", label);
    fit.fit();
    let shell: Shell | undefined;
    let isClosed = false;
    terminal.attachCustomKeyEventHandler((event) => {
      if (!(event.ctrlKey && event.shiftKey && event.code === "KeyX")) return true;
      event.preventDefault();
      terminal.blur();
      element.focus();
      return false;
    });
    // What is typed before there is a shell is for it, too.
    let typed = "";
    terminal.onData((text) => {
      if (shell) shell.write(text);
      else typed += text;
    });
    terminal.onBinary((bytes) => shell?.writeBytes(bytes));
    terminal.onResize(({ cols, rows }) => shell?.resize({ columns: cols, rows }));
    ticket(path)
      .then((uri) => {
        if (isClosed) return;
        shell = new Shell(uri, { columns: terminal.cols, rows: terminal.rows }, (data) => terminal.write(data), setEnded);
        if (typed) shell.write(typed);
        terminal.focus();
      })
      .catch((failed: unknown) => setError(failed instanceof Error ? failed : new ApiError(0, {})));
    const watch = new ResizeObserver(() => fit.fit());
    watch.observe(element);
    const scheme = new MutationObserver(() => {
      terminal.options.theme = themeOf(element);
    });
    scheme.observe(document.documentElement, { attributeFilter: ["data-mantine-color-scheme"] });
    return () => {
      isClosed = true;
      scheme.disconnect();
      watch.disconnect();
      shell?.close();
      terminal.dispose();
      forbidAgain();
    };
  }, [path, label]);
  return (
    <>
      {error && <Problem error={error} again={again} />}
      {ended && (
        <div className={css.bar} role="status">
          <span className={css.state}>{ended.message ?? (ended.exitCode === undefined ? i18n.t("The connection ended.") : i18n.t("The shell ended with exit code {code}.", { code: ended.exitCode }))}</span>
          <Button size="xs" onClick={again}>{i18n.t("Connect again")}</Button>
        </div>
      )}
      <div ref={host} className={css.terminal} hidden={error !== null} role="group" tabIndex={-1} aria-label={label} />
    </>
  );
}
