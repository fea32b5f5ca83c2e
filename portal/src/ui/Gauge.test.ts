import { expect, test } from "vitest";
import type { VirtualCluster } from "@/api/cluster";
import { sharesOf } from "./Gauge";

const gpus = (gpu: number) => ({ gpu, cpu: 0, memory: 0, vCores: 0, GPUs: gpu });

test("a drained node takes nothing from the promise, and what is borrowed is used in addition", () => {
  const vc = { resourcesTotal: gpus(24), resourcesGuaranteed: gpus(16), resourcesUsed: gpus(23), resourcesBorrowed: gpus(4), resourcesLent: gpus(0) };
  expect(sharesOf(vc as VirtualCluster)).toEqual({ unit: "gpu", promised: 24, own: 23, borrowed: 4, lent: 0, bad: 8 });
});
