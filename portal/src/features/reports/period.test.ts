import { expect, test } from "vitest";
import { dayAfter, daysOf, lately, periodOf } from "./period";

const NOON = Date.parse("2026-03-02T12:00:00Z");

test("without an address it is the last thirty days, today included", () => {
  expect(periodOf({}, NOON)).toEqual({ first: "2026-02-01", last: "2026-03-02" });
  expect(lately(7, NOON)).toEqual({ first: "2026-02-24", last: "2026-03-02" });
});

test("the last day of an address is one of the report's", () => {
  const period = periodOf({ from: "2026-02-27", to: "2026-03-01" }, NOON);
  expect(daysOf(period)).toEqual(["2026-02-27", "2026-02-28", "2026-03-01"]);
  expect(dayAfter(period.last)).toBe("2026-03-02");
});

test("an address that makes no sense is a period all the same", () => {
  expect(periodOf({ from: "yesterday", to: "2026-13-40" }, NOON)).toEqual({ first: "2026-02-01", last: "2026-03-02" });
  expect(periodOf({ from: "2026-03-05", to: "2026-03-01" }, NOON)).toEqual({ first: "2026-03-01", last: "2026-03-01" });
  expect(periodOf({ to: "2025-01-01" }, NOON)).toEqual({ first: "2025-01-01", last: "2025-01-01" });
});
