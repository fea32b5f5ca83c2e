import { expect, test } from "vitest";
import { visible } from "./visible";

test("marks that hide letters or turn them around are shown", () => {
  expect(visible("\u202egpj.exe")).toBe("‹U+202E›gpj.exe");
  expect(visible("a\u200bb\nc")).toBe("a‹U+200B›b‹U+000A›c");
  expect(visible("数据 été 🦄.txt")).toBe("数据 été 🦄.txt");
});
