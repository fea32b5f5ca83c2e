// Times and spans as people read them; the exact time is in the title.
import { i18n } from "@lingui/core";
import { useEffect, useState } from "react";

const UNITS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
];

/** Returns how long something took, as 1d 4h, 12m 5s or 3.2s. */
export function span(ms: number): string {
  const s = Math.max(0, ms) / 1000;
  if (s < 10) return `${s.toFixed(1)}s`;
  if (s < 60) return `${Math.floor(s)}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${Math.floor(s % 60)}s`;
  if (s < 86_400) return `${Math.floor(s / 3600)}h ${Math.floor((s % 3600) / 60)}m`;
  return `${Math.floor(s / 86_400)}d ${Math.floor((s % 86_400) / 3600)}h`;
}

export function exact(ms: number): string {
  return new Intl.DateTimeFormat(i18n.locale, { dateStyle: "medium", timeStyle: "medium" }).format(ms);
}

function relative(ms: number, now: number): string {
  const passed = ms - now;
  const format = new Intl.RelativeTimeFormat(i18n.locale, { numeric: "auto", style: "short" });
  for (const [unit, length] of UNITS) {
    if (Math.abs(passed) >= length) return format.format(Math.trunc(passed / length), unit);
  }
  return format.format(0, "second");
}

/** Returns the time, again every second. */
export function useNow(everyMs = 1_000): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

export function Ago({ ms }: { ms: number | null | undefined }) {
  const now = useNow(10_000);
  if (!ms) return <>–</>;
  return <time dateTime={new Date(ms).toISOString()} title={exact(ms)}>{relative(ms, Math.max(now, ms))}</time>;
}

/** Shows when something will be, or was. */
export function When({ ms }: { ms: number }) {
  return <time dateTime={new Date(ms).toISOString()} title={exact(ms)}>{relative(ms, useNow(10_000))}</time>;
}

/** Shows how long something took, or has taken so far. */
export function Span({ from, to }: { from: number | null | undefined; to: number | null | undefined }) {
  return !from ? <>–</> : to ? <>{span(to - from)}</> : <Running from={from} />;
}

function Running({ from }: { from: number }) {
  return <>{span(useNow() - from)}</>;
}
