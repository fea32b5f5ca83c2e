// The filters of the list, as they stand in the address, and as the server takes them.
import type { JobsQuery } from "@/api/jobs";
import type { Query } from "@/ui/address";

export const SORTS = ["submissionTime", "jobName", "username", "vc", "state", "totalGpuNumber", "totalTaskNumber", "retries", "jobPriority", "completionTime"] as const;
export type Sort = (typeof SORTS)[number];

export interface Order {
  by: Sort;
  isAscending: boolean;
}

export function orderOf(query: Query): Order {
  const [by, direction] = (query["sort"] ?? "").split(",");
  const found = SORTS.find((sort) => sort === by);
  return found ? { by: found, isAscending: direction === "ASC" } : { by: "submissionTime", isAscending: false };
}

/** Returns whether an array of jobs is one row: unless the filters are about single jobs. */
export function hasArrays(query: Query): boolean {
  return !["sweep", "q", "state", "tag", "node"].some((key) => query[key]) && query["arrays"] !== "open";
}

/** Returns what the server is asked for the filters of an address. */
export function jobsQueryOf(query: Query): JobsQuery {
  const order = orderOf(query);
  const asked: JobsQuery = {
    username: query["user"],
    vc: query["vc"],
    state: query["state"],
    keyword: query["q"],
    jobPriority: query["priority"],
    tagsContain: query["tag"],
    node: query["node"],
    sweep: query["sweep"],
    foldSweeps: hasArrays(query) || undefined,
  };
  const given = Object.fromEntries(Object.entries(asked).filter(([, value]) => value)) as JobsQuery;
  return { ...given, order: `${order.by},${order.isAscending ? "ASC" : "DESC"}` };
}

/** Returns the command that lists the same jobs. */
export function commandOf(query: Query): string[] {
  if (query["sweep"] && query["user"]) return ["sweep", "show", `${query["user"]}~${query["sweep"]}`];
  const words = ["job", "list", ...(query["user"] ? ["--user", query["user"]] : ["--all"])];
  const options = { vc: "--vc", state: "--state", q: "--keyword", priority: "--priority", tag: "--tag", node: "--node" };
  for (const [key, option] of Object.entries(options)) if (query[key]) words.push(option, query[key]);
  return words;
}
