// The lines of a log: followed at its end, or a part anywhere in it, which scrolling, the position bar and the search lead to.
import { i18n } from "@lingui/core";
import { ActionIcon, Button, Checkbox, TextInput } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";
import { useEffect, useLayoutEffect, useRef, useState } from "react";
import { useAddress } from "@/ui/address";
import { copy } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Note } from "@/ui/Loaded";
import { notify, notifyError } from "@/ui/notices";
import { useWindow } from "@/ui/window";
import { useAloud } from "./aloud";
import css from "./JobPage.module.css";
import { useFollowed, usePart, type Log } from "./lines";
import { useLogSearch } from "./logSearch";

const HEIGHT = 20;
const STEPS = 1_000;
/** More is loaded when fewer lines than this are out of view at an end. */
const MARGIN = 40;

export function LogViewer({ path, stream }: { path: string; stream: string }) {
  const [query, change] = useAddress();
  const hasParts = stream !== "all";
  const at = hasParts && query["at"] ? Number(query["at"]) : undefined;
  const followed = useFollowed(path, stream, at === undefined);
  const { log: part, more } = usePart(path, stream, at);
  const log = at === undefined ? followed : part;
  const go = (offset: number | undefined) => change({ at: offset === undefined ? "" : String(Math.max(Math.floor(offset), 0)) });
  return (
    <>
      <SearchBar path={path} stream={stream} log={log} go={hasParts ? go : undefined} at={at} />
      {hasParts && (at !== undefined || log.start > 0) && <Position log={log} at={at} go={go} />}
      <Lines log={log} stream={stream} at={at} go={hasParts ? go : undefined} more={more} />
    </>
  );
}

interface GoProps {
  log: Log;
  at: number | undefined;
  go: ((offset: number | undefined) => void) | undefined;
}

function SearchBar({ path, stream, log, at, go }: GoProps & { path: string; stream: string }) {
  const [word, setWord] = useState("");
  const search = useLogSearch(path, stream);
  const [isAloud, setIsAloud] = useLocalStorage({ key: "pai-log-aloud", defaultValue: false, getInitialValueInEffect: false });
  useAloud(log, isAloud && at === undefined);
  const { hits, chosen } = search;
  const choose = (index: number) => {
    const hit = search.choose(index);
    if (hit && go) go(hit.offset);
  };
  const find = async () => {
    if (word && search.text === word) return choose(chosen + 1);
    const hit = await search.start(word);
    if (hit && go) go(hit.offset);
  };
  return (
    <div className={css.bar}>
      <TextInput size="xs" leftSection={<Icon name="search" size={15} />} placeholder={i18n.t("Search the whole log")} aria-label={i18n.t("Search the whole log")} value={word}
        onChange={(event) => setWord(event.target.value)} onKeyDown={(event) => {
          if (event.key === "Enter") void (event.shiftKey ? Promise.resolve(choose(chosen - 1)) : find()).catch(notifyError);
        }} />
      <Button size="xs" variant="default" loading={search.isBusy} onClick={() => void find().catch(notifyError)}>{i18n.t("Search")}</Button>
      {search.text && (
        <>
          <span className={css.state} role="status">{search.isBusy ? i18n.t("searching…") : hits.length ? i18n.t("{at} of {count}", { at: chosen + 1, count: `${hits.length}${search.isCut ? "+" : ""}` }) : i18n.t("not found")}</span>
          {hits.length > 0 && (
            <>
              <ActionIcon size="sm" variant="subtle" color="gray" onClick={() => choose(chosen - 1)} aria-label={i18n.t("Previous hit")}><Icon name="up" size={16} /></ActionIcon>
              <ActionIcon size="sm" variant="subtle" color="gray" onClick={() => choose(chosen + 1)} aria-label={i18n.t("Next hit")}><Icon name="down" size={16} /></ActionIcon>
            </>
          )}
        </>
      )}
      {go && <Checkbox size="xs" label={i18n.t("Follow")} checked={at === undefined} onChange={(event) => go(event.target.checked ? undefined : log.lines.at(-1)?.offset ?? 0)} />}
      {at === undefined && <Checkbox size="xs" label={i18n.t("Read new lines aloud")} checked={isAloud} onChange={(event) => setIsAloud(event.target.checked)} />}
      {at !== undefined && <Button size="xs" variant="subtle" onClick={() => void copy(location.href).then(() => notify(i18n.t("Copied")))}>{i18n.t("Copy link to this line")}</Button>}
      <span className={css.state} role="status">{statusOf(log.status)}</span>
    </div>
  );
}

/** A bar for the whole log, of any size: where it is moved to, a part is loaded. */
function Position({ log, at, go }: GoProps) {
  const size = log.size;
  const [moved, setMoved] = useState<number | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const value = moved ?? (at === undefined ? STEPS : size ? Math.round((at / size) * STEPS) : 0);
  const offset = moved === null ? (at ?? size) : (size * moved) / STEPS;
  const text = i18n.t("{percent} % of {size}", { percent: Math.round((100 * offset) / (size || 1)), size: sized(size) });
  const move = (to: number) => {
    setMoved(to);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      setMoved(null);
      go?.(to >= STEPS ? undefined : (size * to) / STEPS);
    }, 60);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <div className={css.position}>
      <input type="range" min={0} max={STEPS} value={value} aria-label={i18n.t("Position in the log")} aria-valuetext={text} onChange={(event) => move(Number(event.target.value))} />
      <span className={css.state}>{text}</span>
    </div>
  );
}

function sized(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), 4);
  return `${(bytes / 1000 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

/** The lines in view. They move as the log grows, so they are not announced from here, but by `useAloud` on request. */
function Lines({ log, stream, at, go, more }: GoProps & { stream: string; more: (where: "before" | "after") => Promise<number> }) {
  const view = useWindow(log.lines.length, HEIGHT);
  const rows = log.lines.slice(view.first, view.last + 1);
  const isFollowed = at === undefined;
  const wanted = log.lines[log.at]?.offset;
  const [isHeld, setIsHeld] = useState(false);
  const isFollowedNow = useRef(isFollowed);
  isFollowedNow.current = isFollowed;
  // Before any event of scrolling: one that saw the new lines before this did would take them for a user's scrolling up.
  useLayoutEffect(() => {
    const box = view.box.current;
    if (box && isFollowed && !isHeld) box.scrollTop = box.scrollHeight;
  }, [log.lines, isFollowed, isHeld, view.box]);
  useEffect(() => {
    const box = view.box.current;
    if (box && wanted !== undefined) box.scrollTop = Math.max(log.at * HEIGHT - box.clientHeight / 3, 0);
  }, [wanted, log.at, view.box]);
  const load = (where: "before" | "after") =>
    void more(where).then((moved) => {
      const box = view.box.current;
      // By now the end may be followed instead.
      if (box && moved && !isFollowedNow.current) box.scrollTop += moved * HEIGHT;
    }).catch(notifyError);
  const onScroll = () => {
    view.onScroll();
    const box = view.box.current;
    if (!box) return;
    if (isFollowed) {
      setIsHeld(box.scrollTop + box.clientHeight < box.scrollHeight - 3 * HEIGHT);
      // Above what is loaded, the log goes on as a part of it.
      if (go && log.start > 0 && log.lines.length && box.scrollTop < HEIGHT) go(log.lines[0]?.offset);
      return;
    }
    if (box.scrollTop < MARGIN * HEIGHT) load("before");
    else if (box.scrollHeight - box.scrollTop - box.clientHeight < MARGIN * HEIGHT) load("after");
  };
  return (
    <div ref={view.box} className={css.log} onScroll={onScroll} tabIndex={0} role="log" aria-live="off" aria-label={i18n.t("Log")}>
      <div style={{ height: view.drawn, position: "relative" }}>
        {rows.map((line, index) => {
          const number = view.first + index;
          const isAt = at !== undefined && line.offset <= at && at < (log.lines[number + 1]?.offset ?? log.end);
          return (
            <div key={`${line.stream}${line.offset}`} className={css.line} data-stream={stream === "all" ? line.stream : undefined} data-at={isAt || undefined}
              style={{ transform: `translateY(${view.topOf(number)}px)` }}>
              {go && <button type="button" tabIndex={-1} aria-hidden className={css.anchor} title={i18n.t("Link to this line")} onClick={() => go(line.offset)}>#</button>}
              {line.text || " "}
            </div>
          );
        })}
      </div>
      {log.status === "missing" && <Note icon="search" title={i18n.t("This log is not there")}>{i18n.t("It was removed, or you may not read it.")}</Note>}
      {log.status === "ended" && !log.lines.length && <Note icon="jobs" title={i18n.t("The task printed nothing here")} />}
    </div>
  );
}

function statusOf(status: string): string {
  if (status === "live") return i18n.t("live");
  if (status === "ended") return i18n.t("complete");
  return status === "connecting" ? i18n.t("connecting…") : "";
}
