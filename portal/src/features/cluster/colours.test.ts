import { expect, test } from "vitest";
import { coloursOf } from "./colours";

test("jobs that are there at the same time have colours of their own, also beyond the number of colours", () => {
  const jobs = Array.from({ length: 36 }, (_, number) => `ana~job-${number}`);
  expect(new Set(coloursOf(jobs).values()).size).toBe(36);
  expect(coloursOf(jobs.toReversed())).toEqual(coloursOf(jobs));
  expect(coloursOf([...jobs, "more", "still-more"]).size).toBe(38);
});
