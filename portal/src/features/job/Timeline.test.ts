import { expect, test } from "vitest";
import { barsOf } from "./Timeline";

const attempt = (attemptIndex: number, attemptStartedTime: number | null, attemptCompletedTime: number | null) => ({ attemptIndex, jobStartedTime: 1_000, attemptStartedTime, attemptCompletedTime });

test("attempts follow each other on one scale, from the submission until now", () => {
  const bars = barsOf([attempt(1, 8_000, null), attempt(0, 2_000, 6_000)], 11_000);
  expect(bars).toEqual([
    { number: 0, waitFrom: 0, runFrom: 10, to: 50, waitedMs: 1_000, ranMs: 4_000 },
    { number: 1, waitFrom: 50, runFrom: 70, to: 100, waitedMs: 2_000, ranMs: 3_000 },
  ]);
});

test("an attempt that never ran only waited", () => {
  expect(barsOf([attempt(0, null, 3_000)], 9_000)).toEqual([{ number: 0, waitFrom: 0, runFrom: 100, to: 100, waitedMs: 2_000, ranMs: null }]);
});
