import { expect, test } from "vitest";
import { jobsOf, leavesOf, topologyOf, type Cell, type Gang } from "./topology";

const leaf = (address: string, state: Cell["cellState"], health: Cell["cellHealthiness"] = "Healthy") => ({ cellType: "GPU", cellAddress: address, cellState: state, cellHealthiness: health, cellPriority: 0 }) as Cell;
const cell = (type: string, address: string, children: Cell[], isNodeLevel = false) => ({ ...leaf(address, "Used"), cellType: type, cellChildren: children, isNodeLevel }) as Cell;
const gang = (name: string, placement: Record<string, number[]>) => ({ metadata: { name }, status: { vc: "default", priority: 0, state: "Allocated", physicalPlacement: placement } }) as Gang;

test("a rack holds nodes, a node switches, and a switch GPUs with their jobs", () => {
  const node = cell("NODE", "rack-1/n1", [cell("SWITCH", "rack-1/n1/0", [leaf("rack-1/n1/0/0", "Used"), leaf("rack-1/n1/0/1", "Free")]), cell("SWITCH", "rack-1/n1/1", [leaf("rack-1/n1/1/2", "Used"), leaf("rack-1/n1/1/3", "Free", "Bad")])], true);
  const places = topologyOf([cell("RACK", "rack-1", [node])], [gang("id-1/default", { n1: [0, 2] })], new Map([["id-1", "ann~train"]]));
  expect(places[0]?.places[0]).toMatchObject({ name: "n1", isNode: true });
  expect(places[0]?.places[0]?.places.map((one) => one.leaves.map((each) => `${each.index} ${each.state} ${each.job}`))).toEqual([["0 used ann~train", "1 free "], ["2 used ann~train", "3 bad "]]);
  expect(jobsOf(places)).toEqual([["ann~train", 2]]);
});

test("a node without devices is a cell itself", () => {
  const places = topologyOf([cell("CPU-NODE", "n2", [], true)], [], new Map());
  expect(places.flatMap(leavesOf)).toHaveLength(1);
});
