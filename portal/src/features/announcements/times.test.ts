import { expect, test } from "vitest";
import { durations, moment } from "./times";

const NOW = 1_000_000_000;
const HOUR = 3_600_000;

test("a field is a time, or none", () => {
  expect([moment(""), moment("no time"), moment("1970-01-01T00:00")]).toEqual([null, null, new Date("1970-01-01T00:00").getTime()]);
});

test("times are lengths on the command line", () => {
  expect(durations(null, null, NOW)).toEqual([]);
  expect(durations(null, NOW + 2 * HOUR, NOW)).toEqual(["--for", "120m"]);
  expect(durations(NOW + HOUR, NOW + 2 * HOUR, NOW)).toEqual(["--in", "60m", "--for", "60m"]);
  expect(durations(NOW - HOUR, NOW + HOUR, NOW)).toEqual(["--for", "60m"]);
});
