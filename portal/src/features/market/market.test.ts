import { expect, test } from "vitest";
import { shown, valueOf } from "./queries";

test("what is typed for a parameter keeps the type of its default", () => {
  expect(valueOf("5", 3)).toBe(5);
  expect(valueOf("5", "3")).toBe("5");
  expect(valueOf("1e-3", 0.1)).toBe(0.001);
  expect(valueOf("false", true)).toBe(false);
  expect(valueOf('["a", "b"]', ["c"])).toEqual(["a", "b"]);
  expect(valueOf("[a", ["c"])).toBe("[a");
});

test("a default is shown as it can be typed", () => {
  for (const value of [3, 0.5, true, ["a", 1], { a: 1 }]) expect(valueOf(shown(value), value)).toEqual(value);
  expect(shown("text")).toBe("text");
});
