// The lines of a log that were loaded: followed from near its end, with earlier parts on request.
import { useCallback, useEffect, useRef, useState } from "react";
import { answerText, events } from "@/api/client";

const TAIL_BYTES = 512 * 1024;
const PART_BYTES = 512 * 1024;
// A tab holds this many lines at most; the rest of a log is a click away.
const LINES_MAX = 100_000;

export interface Line {
  text: string;
  stream: string;
}

export interface Log {
  lines: readonly Line[];
  /** Offset of the first loaded byte; 0 when the log is loaded from its start. */
  start: number;
  status: "connecting" | "live" | "ended" | "missing";
}

// Terminals colour text with these; a browser shows them as noise.
const ESCAPES = /\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007]*\u0007/g;

function clean(text: string): string {
  const last = text.lastIndexOf("\r", text.length - 2);
  return (last >= 0 && !text.endsWith("\r") ? text.slice(last + 1) : text.replaceAll("\r", "")).replace(ESCAPES, "");
}

/** Follows a log at an address of the API; what arrives between two frames is drawn together. */
export function useLog(path: string, stream: string) {
  const [log, setLog] = useState<Log>({ lines: [], start: 0, status: "connecting" });
  const state = useRef({ lines: [] as Line[], rest: new Map<string, string>(), start: -1, status: "connecting" as Log["status"], frame: 0 });
  useEffect(() => {
    const own = { lines: [] as Line[], rest: new Map<string, string>(), start: -1, status: "connecting" as Log["status"], frame: 0 };
    state.current = own;
    const draw = () => {
      own.frame ||= requestAnimationFrame(() => {
        own.frame = 0;
        const open = [...own.rest].filter(([, text]) => text).map(([name, text]) => ({ text: clean(text), stream: name }));
        setLog({ lines: [...own.lines, ...open], start: Math.max(own.start, 0), status: own.status });
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
      const parts = ((own.rest.get(said.stream) ?? "") + said.text).split("\n");
      own.rest.set(said.stream, parts.pop() ?? "");
      for (const text of parts) own.lines.push({ text: clean(text), stream: said.stream });
      if (own.lines.length > LINES_MAX) {
        own.lines = own.lines.slice(-LINES_MAX / 2);
        own.start = Math.max(own.start, 1);
      }
      draw();
    });
    source.addEventListener("end", () => {
      own.status = "ended";
      source.close();
      draw();
    });
    source.addEventListener("error", () => {
      // Closed: the server refused. Otherwise the browser connects again and names its last event.
      own.status = source.readyState === source.CLOSED ? "missing" : "connecting";
      draw();
    });
    return () => {
      source.close();
      cancelAnimationFrame(own.frame);
    };
  }, [path, stream]);
  const loadEarlier = useCallback(async () => {
    const own = state.current;
    if (own.start <= 0) return;
    const from = Math.max(own.start - PART_BYTES, 0);
    const { text } = await answerText(`${path}/${stream}?offset=${from}&limit=${own.start - from}`);
    const parts = text.split("\n");
    const joined = parts.pop() ?? "";
    if (own.lines[0]) own.lines[0] = { ...own.lines[0], text: joined + own.lines[0].text };
    own.lines = [...parts.map((line) => ({ text: clean(line), stream })), ...own.lines];
    own.start = from;
    setLog({ lines: own.lines, start: from, status: own.status });
  }, [path, stream]);
  return { log, loadEarlier };
}
