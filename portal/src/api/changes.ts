// Which jobs changed, as the server says it over one stream of events: read by the worker that all tabs share, or by a
// tab itself where the browser has no such workers.
import { EventSource } from "eventsource";
import type { components } from "./schema";

export type JobChanges = components["schemas"]["JobChanges"];

export interface StreamHandlers {
  onChanges: (changes: JobChanges) => void;
  onState: (isLive: boolean) => void;
}

/** A silent connection is dead after this time: the server sends a comment every 15 s. */
const SILENT_MS = 40_000;
/** Changes within this time are passed on together. */
const TOGETHER_MS = 120;
const AGAIN_MS = [250, 500, 1_000, 2_000, 5_000] as const;

/**
 * Follows the changes until it is closed. After a broken connection, and after a restart of the server, it continues
 * with the event after the last one. A login that ended closes it: another key opens another stream.
 */
export function followChanges(key: string, handlers: StreamHandlers): { close: () => void } {
  let lastId = "";
  let failures = 0;
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let silence: ReturnType<typeof setTimeout> | undefined;
  let isClosed = false;

  const again = (pauseMs: number) => {
    source?.close();
    clearTimeout(silence);
    handlers.onState(false);
    if (!isClosed) timer = setTimeout(open, pauseMs);
  };
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => again(0), SILENT_MS);
  };
  const open = () => {
    let status = 0;
    source = new EventSource(new URL("/api/v2/changes?follow=true", location.origin), {
      fetch: async (input, init) => {
        const headers = { ...init.headers, "X-Pai-Page-Key": key, ...(lastId ? { "Last-Event-ID": lastId } : {}) };
        const response = await fetch(input, { ...init, headers });
        status = response.status;
        return heardBy(response, heard);
      },
    });
    source.addEventListener("open", () => {
      failures = 0;
      handlers.onState(true);
    });
    source.addEventListener("changes", (event) => {
      lastId = event.lastEventId || lastId;
      handlers.onChanges(JSON.parse(event.data as string) as JobChanges);
    });
    source.addEventListener("error", () => {
      // Refused for the login: only another one helps. Everything else passes.
      if (status === 401 || status === 403) isClosed = true;
      again(AGAIN_MS[Math.min(failures++, AGAIN_MS.length - 1)] ?? 5_000);
    });
  };
  open();
  return {
    close: () => {
      isClosed = true;
      clearTimeout(timer);
      clearTimeout(silence);
      source?.close();
    },
  };
}

/** Returns the same answer, and calls a listener for each part of it that arrives, comments included. */
function heardBy(response: Response, heard: () => void): Response {
  if (!response.ok || !response.body) return response;
  heard();
  const body = response.body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>({
    transform(part, controller) {
      heard();
      controller.enqueue(part);
    },
  }));
  const copy = new Response(body, { status: response.status, headers: response.headers });
  Object.defineProperty(copy, "url", { value: response.url });
  return copy;
}

/** Gathers changes, and passes them on together: the first at once, the next when the time since then is over. */
export function gathering(pass: (all: JobChanges) => void, everyMs = TOGETHER_MS): (changes: JobChanges) => void {
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
    timer ??= setTimeout(flush, Math.max(lastMs + everyMs - performance.now(), 0));
  };
}

function joined(one: JobChanges, other: JobChanges): JobChanges {
  return { next: other.next, jobs: [...new Set([...one.jobs, ...other.jobs])], others: one.others || other.others, complete: one.complete && other.complete };
}
