import { expect, test } from "vitest";
import { rowsOf } from "./Differing";

test("lines that only one file has are named with their side", () => {
  expect(rowsOf("a\nb\nc\n", "a\nx\nc\n")).toEqual([
    { kind: "same", text: "a" }, { kind: "other", text: "x" }, { kind: "own", text: "b" }, { kind: "same", text: "c" },
  ]);
  expect(rowsOf("a\n", "a\n")).toEqual([{ kind: "same", text: "a" }]);
});
