// The lines of a log that are loaded: followed from near its end, or a part around any byte of it. Only parts are loaded,
// so that a log of any length opens at once.
import { useCallback, useEffect, useRef, useState } from "react";
import { answerText, events } from "@/api/client";
import { cleaned, split, utf8Length, type Line } from "./text";

const TAIL_BYTES = 512 * 1024;
const PART_BYTES = 256 * 1024;
// A tab holds this many lines at most; other parts of a log are a click away.
const LINES_MAX = 100_000;
const PART_LINES_MAX = 20_000;

export interface Log {
  lines: readonly Line[];
  /** Offsets of the first loaded byte and after the last one. */
  start: number;
  end: number;
  /** As far as is known. */
  size: number;
  /** The line at the offset that was asked for, as an index. */
  at: number;
  status: "connecting" | "live" | "ended" | "missing" | "part";
  /** How many lines at its end are not finished. */
  open: number;
}

const EMPTY: Log = { lines: [], start: 0, end: 0, size: 0, at: -1, status: "connecting", open: 0 };

/** Follows the end of a log at an address of the API; what arrives between two frames is drawn together. */
export function useFollowed(path: string, stream: string, isOn: boolean): Log {
  const [log, setLog] = useState<Log>(EMPTY);
  useEffect(() => {
    if (!isOn) return;
    const own = { lines: [] as Line[], rest: new Map<string, { text: string; offset: number }>(), start: -1, size: 0, status: "connecting" as Log["status"], frame: 0 };
    const draw = () => {
      own.frame ||= requestAnimationFrame(() => {
        own.frame = 0;
        const open = [...own.rest].filter(([, rest]) => rest.text).map(([name, rest]) => ({ text: cleaned(rest.text), stream: name, offset: rest.offset }));
        setLog({ lines: [...own.lines, ...open], start: Math.max(own.start, 0), end: own.size, size: own.size, at: -1, status: own.status, open: own.status === "ended" ? 0 : open.length });
      });
    };
    draw();
    const tail = stream === "all" ? "tail-mode=true" : `offset=-${TAIL_BYTES}`;
    const source = events(`${path}/${stream}?follow=true&${tail}`);
    source.addEventListener("open", () => {
      if (own.status === "connecting") own.status = "live";
      draw();
    });
    source.addEventListener("log", (event) => {
      const said = JSON.parse((event as MessageEvent<string>).data) as { stream: string; offset: number; text: string };
      if (own.start < 0) own.start = said.offset;
      const rest = own.rest.get(said.stream) ?? { text: "", offset: said.offset };
      const found = split(rest.text + said.text, rest.offset, said.stream);
      own.rest.set(said.stream, found.rest);
      for (const line of found.lines) own.lines.push(line);
      own.size = Math.max(own.size, said.offset + utf8Length(said.text));
      if (own.lines.length > LINES_MAX) {
        own.lines = own.lines.slice(-LINES_MAX / 2);
        own.start = own.lines[0]?.offset ?? own.start;
      }
      draw();
    });
    source.addEventListener("end", () => {
      own.status = "ended";
      source.close();
      draw();
    });
    source.addEventListener("error", () => {
      // Closed: the server refused. Otherwise it connects again and names its last event.
      own.status = source.readyState === source.CLOSED ? "missing" : "connecting";
      draw();
    });
    return () => {
      source.close();
      cancelAnimationFrame(own.frame);
      setLog(EMPTY);
    };
  }, [path, stream, isOn]);
  return log;
}

/** Loads the part of a log around an offset, and more of it before or after on request; undefined loads nothing. */
export function usePart(path: string, stream: string, at: number | undefined) {
  const [log, setLog] = useState<Log>({ ...EMPTY, status: "part" });
  const own = useRef(log);
  const isBusy = useRef(false);
  const set = (changed: Log) => {
    own.current = changed;
    setLog(changed);
  };
  useEffect(() => {
    if (at === undefined) return;
    const stop = new AbortController();
    const from = Math.max(at - PART_BYTES / 4, 0);
    read(path, stream, from, PART_BYTES, stop.signal)
      .then((part) => set({ ...part, at: lineAt(part.lines, at), status: "part", open: 0 }))
      .catch((error: unknown) => {
        if (!stop.signal.aborted) set({ ...own.current, status: "missing", size: error ? own.current.size : 0 });
      });
    return () => stop.abort();
  }, [path, stream, at]);
  const more = useCallback(async (where: "before" | "after") => {
    const { start, end, size, lines } = own.current;
    if (isBusy.current || !lines.length || (where === "before" ? start <= 0 : end >= size)) return 0;
    isBusy.current = true;
    try {
      const from = where === "before" ? Math.max(start - PART_BYTES, 0) : end;
      const part = await read(path, stream, from, where === "before" ? start - from : PART_BYTES);
      if (own.current.start !== start || own.current.end !== end) return 0;
      if (where === "after") {
        const all = [...lines, ...part.lines];
        const cut = Math.max(all.length - PART_LINES_MAX, 0);
        const kept = all.slice(cut);
        set({ ...own.current, lines: kept, start: kept[0]?.offset ?? start, end: part.end, size: part.size, at: -1 });
        return -cut;
      }
      const all = [...part.lines, ...lines];
      const kept = all.slice(0, PART_LINES_MAX);
      set({ ...own.current, lines: kept, start: part.start, end: all[PART_LINES_MAX]?.offset ?? end, size: Math.max(size, part.size), at: -1 });
      return part.lines.length;
    } finally {
      isBusy.current = false;
    }
  }, [path, stream]);
  return { log, more };
}

/** Reads whole lines: those of which a part is before `from`, or after the end, are left out, unless the log ends there. */
async function read(path: string, stream: string, from: number, limit: number, signal?: AbortSignal): Promise<Omit<Log, "at" | "status" | "open">> {
  const { text, headers } = await answerText(`${path}/${stream}?offset=${from}&limit=${limit}`, signal);
  const size = Number(headers.get("X-Log-Size"));
  const offset = Number(headers.get("X-Log-Offset"));
  const end = Number(headers.get("X-Log-End"));
  const head = from > 0 ? text.indexOf("\n") + 1 : 0;
  const start = offset + utf8Length(text.slice(0, head));
  const found = split(text.slice(head), start, stream);
  const lines = end >= size && found.rest.text ? [...found.lines, { ...found.rest, text: cleaned(found.rest.text), stream }] : found.lines;
  return { lines, start, end: end >= size ? end : found.rest.offset, size };
}

/** Returns the index of the line that holds an offset. */
export function lineAt(lines: readonly Line[], offset: number): number {
  let low = 0;
  let high = lines.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((lines[middle]?.offset ?? 0) <= offset) low = middle;
    else high = middle - 1;
  }
  return low;
}
