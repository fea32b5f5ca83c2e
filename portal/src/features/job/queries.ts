// What the page of a job asks, and how often.
import { useQuery } from "@tanstack/react-query";
import { answer, answerText, http, type Schemas } from "@/api/client";
import type { JobDetail } from "@/api/jobs";
import { whileLive } from "@/api/live";
import { LIVE_MS, SLOW_MS } from "@/api/queries";
import { isOver } from "@/ui/State";

export type TaskStatus = Schemas["TaskStatus"];

export interface Task extends TaskStatus {
  role: string;
}

/** Returns a job with one attempt of it; "" is the newest. */
export function useJob(job: string, attempt: string) {
  return useQuery({
    queryKey: ["job", job, attempt],
    queryFn: () =>
      (attempt === ""
        ? answer(http.GET("/api/v2/jobs/{job}", { params: { path: { job } } }))
        : answer(http.GET("/api/v2/jobs/{job}/attempts/{number}", { params: { path: { job, number: Number(attempt) } } }))) as Promise<JobDetail>,
    refetchInterval: (query) => (query.state.data && isOver(query.state.data.jobStatus.state) ? SLOW_MS : whileLive(LIVE_MS)),
  });
}

export function useWhy(job: string, isWaiting: boolean) {
  return useQuery({
    queryKey: ["job", job, "why"],
    queryFn: () => answer(http.GET("/api/v2/jobs/{job}/why", { params: { path: { job } } })),
    enabled: isWaiting,
    refetchInterval: LIVE_MS,
  });
}

export function useEvents(job: string) {
  return useQuery({
    queryKey: ["job", job, "events"],
    queryFn: () => answer(http.GET("/api/v2/jobs/{job}/events", { params: { path: { job } } })) as Promise<Schemas["EventList"]>,
    refetchInterval: () => whileLive(2 * LIVE_MS),
  });
}

export function useConfig(job: string) {
  return useQuery({
    queryKey: ["job", job, "config"],
    queryFn: async ({ signal }) => (await answerText(`/api/v2/jobs/${encodeURIComponent(job)}/config`, signal)).text,
    staleTime: Infinity,
  });
}

export function tasksOf(job: JobDetail): Task[] {
  return Object.entries(job.taskRoles).flatMap(([role, found]) => found.taskStatuses.map((task) => ({ ...task, role })));
}
