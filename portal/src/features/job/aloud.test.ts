import { i18n } from "@lingui/core";
import { beforeAll, expect, test } from "vitest";
import { after, digest } from "./aloud";
import type { Log } from "./lines";

beforeAll(() => i18n.loadAndActivate({ locale: "en", messages: {} }));

const line = (text: string, offset = 0) => ({ text, stream: "stdout", offset });
const log = (texts: string[], open = 0): Log => ({ lines: texts.map((text, at) => line(text, at)), start: 0, end: 0, size: 0, at: -1, status: "live", open });

test("a few lines are read whole, of many the number and the last one", () => {
  expect(digest([line("one"), line(" "), line("two")])).toBe("one\ntwo");
  expect(digest(["a", "b", "c", "d"].map((text) => line(text)))).toContain("d");
  expect(digest(["a", "b", "c", "d"].map((text) => line(text)))).not.toContain("a\n");
  expect(digest([line("x".repeat(5_000))]).length).toBeLessThan(300);
});

test("a line is read once it is finished, and once only", () => {
  const seen = log(["one", "two", "three so f"], 1);
  expect(after(seen, seen.lines[0]).map((one) => one.text)).toEqual(["two"]);
  expect(after(seen, seen.lines[1])).toEqual([]);
  // Old lines are dropped from a long log.
  expect(after(seen, line("gone"))).toEqual([]);
  expect(after(log(["first"]), undefined).map((one) => one.text)).toEqual(["first"]);
});
