// How warm the GPUs on the map are.
import type { Node } from "@/api/cluster";
import type { Leaf } from "./topology";

/** Most GPUs slow down between 83 and 90 °C. */
export const WARM_C = 65;
export const HOT_C = 80;

/** Temperatures by `node/number`. */
export type Heat = ReadonlyMap<string, number>;

export function heatOf(nodes: readonly Pick<Node, "name" | "temperatures">[]): Heat {
  return new Map(nodes.flatMap((node) => Object.entries(node.temperatures).map(([number, degrees]): [string, number] => [`${node.name}/${number}`, degrees])));
}

export function heatName(degrees: number | undefined): "none" | "cool" | "warm" | "hot" {
  if (degrees === undefined) return "none";
  return degrees < WARM_C ? "cool" : degrees < HOT_C ? "warm" : "hot";
}

export function hottestOf(node: string, leaves: readonly Leaf[], heat: Heat): number | undefined {
  const found = leaves.map((leaf) => heat.get(`${node}/${leaf.index}`)).filter((one) => one !== undefined);
  return found.length ? Math.max(...found) : undefined;
}
