// New lines of a log, read aloud to people who cannot see them: what came in a few seconds together, and never all of much.
import { i18n } from "@lingui/core";
import { useEffect, useRef } from "react";
import { announce } from "@/ui/announce";
import type { Log } from "./lines";
import type { Line } from "./text";

const EVERY_MS = 2_000;
const LINES_MAX = 3;
const LETTERS_MAX = 200;

/** Returns what is said of lines that came together: all of a few, of more how many and the last one. */
export function digest(lines: readonly Line[]): string {
  const texts = lines.map((line) => line.text.trim()).filter(Boolean).map((text) => (text.length > LETTERS_MAX ? `${text.slice(0, LETTERS_MAX)}…` : text));
  if (texts.length <= LINES_MAX) return texts.join("\n");
  return i18n.t("{count} new lines, the last one: {text}", { count: texts.length, text: texts.at(-1) ?? "" });
}

/** Returns the finished lines after one of them; none if that line is not there any more. */
export function after(log: Log, last: Line | undefined): readonly Line[] {
  const whole = log.open ? log.lines.slice(0, -log.open) : log.lines;
  return last ? whole.slice(whole.lastIndexOf(last) + 1 || whole.length) : whole;
}

/** Announces finished lines of a followed log that come from now on. */
export function useAloud(log: Log, isOn: boolean): void {
  const now = useRef(log);
  now.current = log;
  useEffect(() => {
    if (!isOn) return;
    const begin = now.current.lines.at(-1 - now.current.open);
    let last = begin;
    const timer = setInterval(() => {
      const fresh = after(now.current, last);
      const text = digest(fresh);
      last = fresh.at(-1) ?? now.current.lines.at(-1 - now.current.open);
      if (text) announce(text);
    }, EVERY_MS);
    return () => clearInterval(timer);
  }, [isOn]);
}
