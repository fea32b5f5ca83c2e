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

/** Asks how SSH clients reach the running tasks. */
export function useSsh(job: string) {
  return useQuery({
    queryKey: ["job", job, "ssh"],
    queryFn: () => answer(http.GET("/api/v2/jobs/{job}/ssh", { params: { path: { job } } })) as Promise<Schemas["SshAddresses"]>,
    retry: false,
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

/** Metrics of one task; those of a whole job are the server's choice. */
const TASK_METRICS = ["task_cpu_percent", "task_mem_usage_byte", "task_gpu_percent", "task_gpu_mem_percent", "task_net_in_byte", "task_net_out_byte", "task_block_in_byte", "task_block_out_byte"];

/** Asks what a job used, or one of its tasks: "worker/0". */
export function useJobMetrics(job: string, task: string, isOver: boolean) {
  const [role = "", index] = task.split("/");
  const query = task ? { name: TASK_METRICS, role, index: Number(index) } : {};
  return useQuery({
    queryKey: ["job", job, "metrics", task],
    queryFn: async () => (await (answer(http.GET("/api/v2/jobs/{job}/metrics", { params: { path: { job }, query } })) as Promise<Schemas["JobMetrics"]>)).charts,
    // It is measured every ten seconds.
    refetchInterval: isOver ? false : SLOW_MS,
  });
}

/** Asks how much of what it asked for a job used; an old backend, or a follower, may have nothing to say. */
export function useEfficiency(job: string, isOver: boolean) {
  return useQuery({
    queryKey: ["job", job, "efficiency", isOver],
    queryFn: () => answer(http.GET("/api/v2/jobs/{job}/efficiency", { params: { path: { job } } })) as Promise<Schemas["JobEfficiency"]>,
    refetchInterval: isOver ? false : 3 * SLOW_MS,
  });
}

export function tasksOf(job: JobDetail): Task[] {
  return Object.entries(job.taskRoles).flatMap(([role, found]) => found.taskStatuses.map((task) => ({ ...task, role })));
}
