import { writeCommand } from "./command";
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

test("the command of a form names files for what is long, and shares as chosen", () => {
  const text = { title: "A b", summary: "", description: "# Long", protocol: "name: x", storage: "", path: "", address: "", categories: ["c"], tags: ["t", "u"], visibility: "shared" as const, groups: ["g"], virtualClusters: [], comment: "why" };
  expect(writeCommand("", text, "template", false).join(" ")).toBe("market publish NAME --title A b --description DESCRIPTION.md --file JOB.yaml --category c --tag t --tag u --group g --comment why");
  expect(writeCommand("one", { ...text, visibility: "private" }, null, true).join(" ")).toContain("market edit one --title A b --description DESCRIPTION.md --file JOB.yaml --category c --tag t --tag u --visibility private --official");
});
