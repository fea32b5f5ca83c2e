// What several pages ask about jobs.
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "./client";
import { whileLive } from "./live";
import { LIVE_MS } from "./queries";

export type JobSummary = Schemas["JobSummary"];
export type JobDetail = Schemas["JobDetail"];
export type JobAction = "stop" | "restart" | "start" | "archive" | "delete" | "tag" | "untag";

export interface JobsQuery {
  username?: string;
  vc?: string;
  state?: string;
  keyword?: string;
  jobPriority?: string;
  tagsContain?: string;
  order?: string;
  node?: string;
  sweep?: string;
  /** Whether an array is listed as its first job alone. */
  foldSweeps?: boolean;
}

export interface JobPage {
  totalCount: number;
  data: JobSummary[];
}

/** Returns a page of the list, and how many jobs match. */
export function jobPage(query: JobsQuery, offset: number, limit: number): Promise<JobPage> {
  const asked = { ...query, offset, limit, withTotalCount: "true" };
  return answer(http.GET("/api/v2/jobs", { params: { query: asked } })) as unknown as Promise<JobPage>;
}

export function useJobPage(query: JobsQuery, limit: number) {
  return useQuery({
    queryKey: ["jobs", "page", query, limit],
    queryFn: () => jobPage(query, 0, limit),
    refetchInterval: () => whileLive(LIVE_MS),
  });
}

/** Does one action to several jobs; the answer has the result for each. */
export function actOnJobs(action: JobAction, jobs: string[], more: { tag?: string; reason?: string } = {}) {
  return answer(http.POST("/api/v2/jobs/bulk", { body: { action, jobs, ...more } as never })) as Promise<Schemas["BulkResults"]>;
}

/** Does one action to all jobs of an array that it concerns. */
export function actOnSweep(action: JobAction, user: string, sweep: string) {
  return answer(http.POST("/api/v2/jobs/bulk", { body: { action, where: { username: user, sweep } } as never })) as Promise<Schemas["BulkResults"]>;
}

/** Asks for the jobs of an array: `user~name`. */
export function useSweep(sweep: string) {
  return useQuery({
    queryKey: ["jobs", "sweep", sweep],
    queryFn: () => answer(http.GET("/api/v2/sweeps/{sweep}", { params: { path: { sweep } } })) as Promise<Schemas["Sweep"]>,
    enabled: Boolean(sweep),
    refetchInterval: () => whileLive(LIVE_MS),
  });
}

export function fullName(job: { username: string; name: string }): string {
  return `${job.username}~${job.name}`;
}
