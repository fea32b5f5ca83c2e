// Days of a report, in UTC as the server counts them. In the address the last day is one of the report's.
export const DAY_MS = 86_400_000;
const WRITTEN = /^\d{4}-\d\d-\d\d$/;

export interface Period {
  first: string;
  last: string;
}

export function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

export function startOf(day: string): number {
  return Date.parse(`${day}T00:00:00Z`);
}

/** Returns the day after, which the server and the command line want as the end. */
export function dayAfter(day: string): string {
  return dayOf(startOf(day) + DAY_MS);
}

function isDay(text: string | undefined): text is string {
  return text !== undefined && WRITTEN.test(text) && !Number.isNaN(startOf(text));
}

/** Returns the last days of this length, today included. */
export function lately(days: number, now: number): Period {
  return { first: dayOf(now - (days - 1) * DAY_MS), last: dayOf(now) };
}

/** Returns the period that an address names; 30 days without one, and one day where it would end before it begins. */
export function periodOf(query: Record<string, string>, now: number): Period {
  const usual = lately(30, now);
  const last = isDay(query["to"]) ? query["to"] : usual.last;
  const first = isDay(query["from"]) ? query["from"] : dayOf(Math.min(startOf(usual.first), startOf(last)));
  return first > last ? { first: last, last } : { first, last };
}

/** Returns every day of a period. */
export function daysOf(period: Period): string[] {
  const days = Math.round((startOf(period.last) - startOf(period.first)) / DAY_MS) + 1;
  return Array.from({ length: Math.min(days, 1_100) }, (_, day) => dayOf(startOf(period.first) + day * DAY_MS));
}
