import { expect, test } from "vitest";
import { heatName, heatOf, hottestOf } from "./heat";

test("the hottest GPU of a node is of that node alone", () => {
  const heat = heatOf([{ name: "n1", temperatures: { "0": 61, "1": 83.4 } }, { name: "n2", temperatures: {} }]);
  const leaf = (index: number) => ({ index, state: "used" as const, job: "" });
  expect(hottestOf("n1", [leaf(0), leaf(1), leaf(2)], heat)).toBe(83.4);
  expect(hottestOf("n2", [leaf(0)], heat)).toBeUndefined();
});

test("each temperature has one name", () => {
  expect([undefined, 20, 64.9, 65, 79.9, 80].map(heatName)).toEqual(["none", "cool", "cool", "warm", "warm", "hot"]);
});
