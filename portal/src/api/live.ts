// Keeps what is on the page as it is at the server: changes arrive over one connection for all tabs, and the questions
// whose answers they may have changed are asked again. While there is no connection, pages ask every few seconds.
import type { Query, QueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { followChanges, gathering, type JobChanges } from "./changes";
import { pageKey, whenPageKeyChanges } from "./client";
import type { FromWorker, ToWorker } from "./live.worker";
import { askThrough, type Answered } from "./shared";

/** Sums over many jobs change with nearly every event; they need no answer for each. */
const SUMS_MS = 1_500;
const SUMS = new Set(["nodes", "virtual-clusters", "quotas", "palette"]);
/** What a tab has to expect that heard of nothing for a while. */
const ANYTHING: JobChanges = { next: 0, jobs: [], others: true, complete: false };

let isLive = false;

function setLive(is: boolean): void {
  if (is === isLive) return;
  isLive = is;
  document.documentElement.dataset["live"] = String(is);
}

/** Returns how long to wait before asking again what changes are followed for: long while they arrive. */
export function whileLive(otherwiseMs: number): number {
  return isLive ? Math.max(otherwiseMs, 15_000) : otherwiseMs;
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
    const ask = (concerned: (query: Query) => boolean) => {
      // A page that nobody looks at asks once somebody does: its answers are old, which the change to visible finds.
      const refetchType = document.visibilityState === "visible" ? "active" : "none";
      void queries.invalidateQueries({ predicate: concerned, refetchType });
    };
    const sums = gathering(() => ask((query) => SUMS.has(String(query.queryKey[0]))), SUMS_MS);
    const onChanges = (changes: JobChanges) => {
      ask((query) => concerns(query.queryKey, changes, user) && query.queryKey[2] !== "config");
      sums(changes);
    };
    const onState = (is: boolean) => {
      const wasLive = isLive;
      setLive(is);
      // Queries that waited for events ask now, and from now on every few seconds.
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
  const post = (message: ToWorker) => worker.port.postMessage(message);
  const send = (key: string | undefined) => post({ key });
  const asked = new Map<number, { done: (answer: Answered) => void; failed: (error: Error) => void }>();
  let count = 0;
  const shared = {
    ask: (path: string, key: string) => new Promise<Answered>((done, failed) => {
      asked.set(++count, { done, failed });
      post({ ask: count, path, key });
    }),
    forget: () => post({ changed: true }),
  };
  worker.port.onmessage = ({ data }: MessageEvent<FromWorker>) => {
    if ("changes" in data) return handlers.onChanges(data.changes);
    if ("isLive" in data) {
      // Only with the stream does the worker know how long an answer is right.
      askThrough(data.isLive ? shared : undefined);
      return handlers.onState(data.isLive);
    }
    const one = asked.get(data.answered);
    asked.delete(data.answered);
    if (data.answer) one?.done(data.answer);
    else one?.failed(new TypeError("the server cannot be reached"));
  };
  let stopAlone: (() => void) | undefined;
  worker.addEventListener("error", () => {
    askThrough(undefined);
    stopAlone ??= connectAlone(handlers);
  });
  worker.port.start();
  send(pageKey());
  const isSeen = () => document.visibilityState === "visible";
  const look = () => {
    post({ isSeen: isSeen() });
    if (isSeen() && isLive) handlers.onChanges(ANYTHING);
  };
  post({ isSeen: isSeen() });
  document.addEventListener("visibilitychange", look);
  const forget = whenPageKeyChanges(() => send(pageKey()));
  const leave = () => send(undefined);
  // A page that comes back from the browser's cache says so again.
  const comeBack = (event: PageTransitionEvent) => {
    if (!event.persisted) return;
    send(pageKey());
    post({ isSeen: isSeen() });
  };
  addEventListener("pagehide", leave);
  addEventListener("pageshow", comeBack);
  return () => {
    document.removeEventListener("visibilitychange", look);
    removeEventListener("pagehide", leave);
    removeEventListener("pageshow", comeBack);
    forget();
    askThrough(undefined);
    leave();
    stopAlone?.();
    worker.port.close();
  };
}

/** Follows the changes in this tab, while it is visible: a browser has six connections to a server. */
function connectAlone({ onChanges, onState }: Handlers): () => void {
  const handlers = { onChanges: gathering(onChanges), onState };
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
