import { expect, test } from "vitest";
import { cleaned, split, utf8Length } from "./text";
import { lineAt } from "./lines";

test("each line has the offset of its first byte, also after characters of several bytes", () => {
  const found = split("héllo\n\n日本\nrest", 100, "stdout");
  expect(found.lines.map((line) => [line.text, line.offset])).toEqual([["héllo", 100], ["", 107], ["日本", 108]]);
  expect(found.rest).toEqual({ text: "rest", offset: 115 });
  expect(utf8Length("日本")).toBe(6);
});

test("a progress bar shows its last state, and colours are left out", () => {
  expect(cleaned("10%\r20%\r30%")).toBe("30%");
  expect(cleaned("done\r")).toBe("done");
  expect(cleaned("\u001b[31mred\u001b[0m")).toBe("red");
});

test("the line of an offset is found", () => {
  const lines = split("ab\ncd\nef\n", 0, "stdout").lines;
  expect([0, 2, 3, 5, 6, 100].map((offset) => lineAt(lines, offset))).toEqual([0, 0, 1, 1, 2, 2]);
});
