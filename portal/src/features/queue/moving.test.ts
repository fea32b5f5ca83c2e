import { expect, test } from "vitest";
import { mayDrop, moveTo, type Queued } from "./moving";

const row = (job: string | null, priority = 0, mayMove = true) => ({ job, priority, mayMove }) as Queued;
const jobs = [row("a~urgent", 10), row("a~one"), row("b~two"), row(null, 0, false), row("c~three")];

test("a row goes before those above it and after those below it", () => {
  expect(moveTo(jobs, 4, 1)).toEqual({ job: "c~three", word: "before", beside: "a~one" });
  expect(moveTo(jobs, 1, 2)).toEqual({ job: "a~one", word: "after", beside: "b~two" });
});

test("a row stays where another priority, or a job that may not be moved, is", () => {
  for (const to of [-1, 0, 2, 3, 5]) expect(mayDrop(jobs, 2, to)).toBe(false);
  expect(moveTo(jobs, 2, 0)).toBeNull();
  expect(mayDrop(jobs, 2, 4)).toBe(true);
});
