// Which place a job gets when its row is put where another one is.
import type { Schemas } from "@/api/client";

export type Queued = Schemas["QueuedJob"];

export interface Move {
  job: string;
  word: "before" | "after";
  beside: string;
}

/** Returns whether a row may be put where another one is: priorities go before places. */
export function mayDrop(jobs: readonly Queued[], from: number, to: number): boolean {
  const moved = jobs[from];
  const there = jobs[to];
  return from !== to && Boolean(moved?.mayMove && there?.mayMove && moved.priority === there.priority);
}

/** Returns what to ask of the server to put a row where another one is; null where it cannot be. */
export function moveTo(jobs: readonly Queued[], from: number, to: number): Move | null {
  const job = jobs[from]?.job;
  const beside = jobs[to]?.job;
  if (!job || !beside || !mayDrop(jobs, from, to)) return null;
  return { job, beside, word: to < from ? "before" : "after" };
}
