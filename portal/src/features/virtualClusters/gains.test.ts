import { expect, test } from "vitest";
import type { Schemas } from "@/api/client";
import { gained } from "./gains";

function resources(gpu: number, cpu = gpu * 4): Schemas["Resources"] {
  return { cpu, gpu, memory: 0, vCores: cpu, GPUs: gpu };
}

test("those that lose stand first, and those that keep what they have are left out", () => {
  const shares = [
    { name: "audio", before: null, after: resources(8) },
    { name: "default", before: resources(16), after: resources(8) },
    { name: "vision", before: resources(8), after: resources(8) },
  ];
  expect(gained(shares)).toEqual([
    { name: "default", before: 16, after: 8, unit: "gpu" },
    { name: "audio", before: 0, after: 8, unit: "gpu" },
  ]);
});

test("a cluster without GPUs is counted in CPUs", () => {
  expect(gained([{ name: "default", before: resources(0, 64), after: null }])).toEqual([{ name: "default", before: 64, after: 0, unit: "cpu" }]);
});
