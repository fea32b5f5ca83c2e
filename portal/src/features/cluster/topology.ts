// The cells of the cluster as a tree of racks, switches, nodes and GPUs, with the job that uses each GPU.
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import { whileLive } from "@/api/live";
import { fullName, jobPage } from "@/api/jobs";
import { LIVE_MS } from "@/api/queries";

/** Of more jobs, the others are shown by their ids. */
const NAMED_MAX = 2_000;

export type Cell = Schemas["Cell"];
export type Gang = Schemas["Gang"];

export interface Leaf {
  index: number;
  state: "free" | "used" | "reserved" | "bad";
  /** user~name of the job that uses it, or reserved it. */
  job: string;
}

export interface Place {
  name: string;
  type: string;
  isNode: boolean;
  isBad: boolean;
  /** Inside a node: GPUs that share a switch. */
  leaves: Leaf[];
  places: Place[];
}

export function useTopology() {
  return useQuery({
    queryKey: ["nodes", "topology"],
    queryFn: async () => {
      const [cells, gangs, running] = await Promise.all([
        answer(http.GET("/api/v2/scheduler/inspect/clusterstatus/physicalcluster")) as Promise<Cell[]>,
        answer(http.GET("/api/v2/scheduler/inspect/affinitygroups")) as Promise<Schemas["Gangs"]>,
        jobPage({ state: "RUNNING,STOPPING,WAITING", order: "submissionTime,DESC" }, 0, NAMED_MAX),
      ]);
      return topologyOf(cells, gangs.items, new Map(running.data.map((job) => [job.debugId, fullName(job)])));
    },
    refetchInterval: () => whileLive(2 * LIVE_MS),
  });
}

/** Returns the trees of cells with the jobs that hold them. */
export function topologyOf(cells: readonly Cell[], gangs: readonly Gang[], names: ReadonlyMap<string, string>): Place[] {
  const jobs = new Map<string, string>();
  for (const gang of gangs) {
    // A gang is named after the id of its job.
    const id = gang.metadata.name.replace(/\/.*$/, "");
    const job = names.get(id) ?? id;
    for (const [node, devices] of Object.entries(gang.status.physicalPlacement)) for (const device of devices) jobs.set(`${node}/${device}`, job);
  }
  return cells.map((cell) => placeOf(cell, "", jobs));
}

function placeOf(cell: Cell, node: string, jobs: ReadonlyMap<string, string>): Place {
  const name = last(cell.cellAddress);
  const own = cell.isNodeLevel ? name : node;
  const children = cell.cellChildren ?? [];
  const isLeaf = (child: Cell) => !child.cellChildren?.length;
  // Where a node has no devices, it is a leaf itself.
  const leaves = children.length || !cell.isNodeLevel ? children.filter((child) => own && isLeaf(child)) : [cell];
  const place: Place = {
    name,
    type: cell.cellType,
    isNode: Boolean(cell.isNodeLevel),
    isBad: false,
    leaves: leaves.map((leaf) => leafOf(leaf, own, jobs)),
    places: children.filter((child) => !(own && isLeaf(child))).map((child) => placeOf(child, own, jobs)),
  };
  // HiveD calls a cell bad if a part of it is.
  return { ...place, isBad: leavesOf(place).every((leaf) => leaf.state === "bad") };
}

function leafOf(cell: Cell, node: string, jobs: ReadonlyMap<string, string>): Leaf {
  const index = Number(last(cell.cellAddress)) || 0;
  const job = jobs.get(`${node}/${index}`) ?? "";
  if (cell.cellHealthiness === "Bad") return { index, state: "bad", job };
  return { index, state: cell.cellState === "Free" ? "free" : cell.cellState === "Used" ? "used" : "reserved", job };
}

function last(address: string): string {
  return address.split("/").at(-1) ?? address;
}

/** Returns all leaves below a place. */
export function leavesOf(place: Place): Leaf[] {
  return [...place.leaves, ...place.places.flatMap(leavesOf)];
}

/** Returns the jobs on the map, those with the most GPUs first. */
export function jobsOf(places: readonly Place[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const leaf of places.flatMap(leavesOf)) if (leaf.job) counts.set(leaf.job, (counts.get(leaf.job) ?? 0) + 1);
  return [...counts].sort(([one, some], [other, more]) => more - some || one.localeCompare(other));
}
