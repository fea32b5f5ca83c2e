// Keeps what is on the page as it is at the server: changes arrive over one connection for all tabs, and the questions
// whose answers they may have changed are asked again. While there is no connection, pages ask every few seconds.
import type { QueryClient } from "@tanstack/react-query";
import { useEffect, useSyncExternalStore } from "react";
import { followChanges, type JobChanges } from "./changes";
import { pageKey, whenPageKeyChanges } from "./client";
import type { FromWorker, ToWorker } from "./live.worker";

/** A page that nobody looks at asks again at most this often, and a visible one this often. */
const HIDDEN_MS = 2_000;
const VISIBLE_MS = 120;
/** Sums over many jobs change with nearly every event; they need no answer for each. */
const SUMS_MS = 1_500;
const SUMS = new Set(["nodes", "virtual-clusters", "quotas", "palette"]);

let isLive = false;
const watchers = new Set<() => void>();

function setLive(is: boolean): void {
  if (is === isLive) return;
  isLive = is;
  document.documentElement.dataset["live"] = String(is);
  for (const each of watchers) each();
}

/** Returns how long to wait before asking again what changes are followed for: long while they arrive. */
export function whileLive(otherwiseMs: number): number {
  return isLive ? Math.max(otherwiseMs, 15_000) : otherwiseMs;
}

export function useIsLive(): boolean {
  return useSyncExternalStore((watcher) => {
    watchers.add(watcher);
    return () => watchers.delete(watcher);
  }, () => isLive);
}

/** Gathers changes, and passes them on together: the first at once, the next when the time since then is over. */
export function gathering(pass: (all: JobChanges) => void, everyMs: () => number): (changes: JobChanges) => void {
  let waiting: JobChanges | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let lastMs = -Infinity;
  const flush = () => {
    timer = undefined;
    if (!waiting) return;
    const all = waiting;
    waiting = undefined;
    lastMs = performance.now();
    pass(all);
  };
  return (changes) => {
    waiting = waiting ? joined(waiting, changes) : changes;
    timer ??= setTimeout(flush, Math.max(lastMs + everyMs() - performance.now(), 0));
  };
}

function joined(one: JobChanges, other: JobChanges): JobChanges {
  return { next: other.next, jobs: [...new Set([...one.jobs, ...other.jobs])], others: one.others || other.others, complete: one.complete && other.complete };
}

/** Returns whether changes may have changed the answer of a question. */
export function concerns(key: readonly unknown[], changes: JobChanges, user = ""): boolean {
  const [noun, name] = key;
  if (noun === "jobs") return true;
  if (noun !== "job") return false;
  // A job of one's own may be named without its owner.
  return !changes.complete || changes.jobs.some((job) => job === name || job === `${user}~${String(name)}`);
}

/** Asks again what changed, for as long as the page is open. */
export function useLive(queries: QueryClient, user: string): void {
  useEffect(() => {
    document.documentElement.dataset["live"] = "false";
    const again = gathering((changes) => {
      void queries.invalidateQueries({ predicate: (query) => concerns(query.queryKey, changes, user) && query.queryKey[2] !== "config" });
    }, () => (document.visibilityState === "visible" ? VISIBLE_MS : HIDDEN_MS));
    const sums = gathering(() => {
      void queries.invalidateQueries({ predicate: (query) => SUMS.has(String(query.queryKey[0])) });
    }, () => (document.visibilityState === "visible" ? SUMS_MS : 2 * HIDDEN_MS));
    const onChanges = (changes: JobChanges) => {
      again(changes);
      sums(changes);
    };
    const onState = (is: boolean) => {
      const wasLive = isLive;
      setLive(is);
      // Whoever waited for events asks now, and from now on every few seconds.
      if (wasLive && !is) void queries.invalidateQueries({ predicate: (query) => query.queryKey[0] === "jobs" || query.queryKey[0] === "job" || SUMS.has(String(query.queryKey[0])) });
    };
    const stop = connect({ onChanges, onState });
    return () => {
      stop();
      setLive(false);
    };
  }, [queries, user]);
}

type Handlers = Parameters<typeof followChanges>[1];

function connect(handlers: Handlers): () => void {
  if (typeof SharedWorker === "undefined") return connectAlone(handlers);
  const worker = new SharedWorker(new URL("./live.worker.ts", import.meta.url), { type: "module", name: "pai-live" });
  const send = (key: string | undefined) => worker.port.postMessage({ key } satisfies ToWorker);
  worker.port.onmessage = (event: MessageEvent<FromWorker>) => {
    if ("changes" in event.data) handlers.onChanges(event.data.changes);
    else handlers.onState(event.data.isLive);
  };
  let stopAlone: (() => void) | undefined;
  worker.addEventListener("error", () => {
    stopAlone ??= connectAlone(handlers);
  });
  worker.port.start();
  send(pageKey());
  const forget = whenPageKeyChanges(() => send(pageKey()));
  const leave = () => send(undefined);
  // A page that comes back from the browser's cache says so again.
  const comeBack = (event: PageTransitionEvent) => event.persisted && send(pageKey());
  addEventListener("pagehide", leave);
  addEventListener("pageshow", comeBack);
  return () => {
    removeEventListener("pagehide", leave);
    removeEventListener("pageshow", comeBack);
    forget();
    leave();
    stopAlone?.();
    worker.port.close();
  };
}

/** Follows the changes in this tab, while it is visible: a browser has six connections to a server. */
function connectAlone(handlers: Handlers): () => void {
  let stream: { close: () => void } | undefined;
  const look = () => {
    stream?.close();
    stream = undefined;
    handlers.onState(false);
    if (document.visibilityState === "visible" && pageKey()) stream = followChanges(pageKey(), handlers);
  };
  document.addEventListener("visibilitychange", look);
  const forget = whenPageKeyChanges(look);
  look();
  return () => {
    document.removeEventListener("visibilitychange", look);
    forget();
    stream?.close();
  };
}
