// Times of announcements: as a field has them, as the server takes them, and as lengths for the command line.
const MINUTE_MS = 60_000;

/** Returns the time of a `datetime-local` field in milliseconds; null for an empty one. */
export function moment(field: string): number | null {
  const ms = new Date(field).getTime();
  return field && Number.isFinite(ms) ? ms : null;
}

/** Returns the options of `pai announcement add` for a beginning and an end. */
export function durations(fromMs: number | null, toMs: number | null, nowMs: number): string[] {
  const minutes = (ms: number) => `${Math.max(Math.round(ms / MINUTE_MS), 1)}m`;
  const start = fromMs !== null && fromMs > nowMs ? fromMs : nowMs;
  return [...(start > nowMs ? ["--in", minutes(start - nowMs)] : []), ...(toMs === null ? [] : ["--for", minutes(toMs - start)])];
}
