// What the page of reports asks; the server decides whose use the caller sees.
import { useQueries, useQuery } from "@tanstack/react-query";
import { answer, answerText, http, type Schemas } from "@/api/client";
import { SLOW_MS } from "@/api/queries";
import { dayAfter, type Period, startOf } from "./period";

export type Report = Schemas["UsageReport"];
export type Row = Schemas["UsageRow"];
export type By = "user" | "group" | "vc" | "day";
export type Metric = Schemas["MetricChart"];

const REFRESH_MS = 6 * SLOW_MS;

export function useReport(by: By, { first, last }: Period) {
  return useQuery({
    queryKey: ["reports", by, first, last],
    queryFn: () => answer(http.GET("/api/v2/reports/use", { params: { query: { by: [by], from: first, to: dayAfter(last) } } })) as Promise<Report>,
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
  });
}

/** Returns the report as the server writes it for spreadsheets. */
export async function csvOf(by: By, { first, last }: Period): Promise<string> {
  const query = new URLSearchParams({ by, from: first, to: dayAfter(last), format: "csv" });
  return (await answerText(`/api/v2/reports/use?${query}`)).text;
}

const METRICS = ["pai_vc_gpus_used", "pai_vc_gpus_promised"] as const;

/** Asks for the GPUs that virtual clusters used and were promised; only administrators see these. */
export function useUtilisation({ first, last }: Period, isAdmin: boolean) {
  return useQueries({
    queries: METRICS.map((name) => ({
      queryKey: ["metrics", name, first, last],
      queryFn: () => answer(http.GET("/api/v2/metrics/{name}", { params: { path: { name }, query: { start: startOf(first), end: Math.min(startOf(dayAfter(last)), Date.now()), series: 50, points: 120 } } })) as Promise<Metric>,
      enabled: isAdmin,
      refetchInterval: REFRESH_MS,
    })),
  });
}

export function useWeekly(isAsked: boolean) {
  return useQuery({
    queryKey: ["reports", "weekly"],
    queryFn: () => answer(http.GET("/api/v2/reports/weekly")) as Promise<Schemas["WeeklyReport"]>,
    enabled: isAsked,
  });
}
