// The visible rows of a list of any length: pages of the server, fetched where the scroll bar stands.
import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { jobPage, type JobsQuery, type JobSummary } from "@/api/jobs";
import { whileLive } from "@/api/live";
import { LIVE_MS } from "@/api/queries";

export const PAGE = 100;

/** Returns a page of the list. One in the second half is read from the end: the server skips fewer jobs. */
async function pageAt(query: JobsQuery, page: number, total: number): Promise<JobSummary[]> {
  const offset = page * PAGE;
  if (offset <= total / 2) return (await jobPage(query, offset, PAGE)).data;
  const limit = Math.min(PAGE, total - offset);
  const [by, direction] = (query.order ?? "").split(",");
  const order = `${by},${direction === "ASC" ? "DESC" : "ASC"}`;
  return (await jobPage({ ...query, order }, total - offset - limit, limit)).data.reverse();
}

export interface Rows {
  total: number;
  job: (index: number) => JobSummary | undefined;
}

/** Returns the jobs from `first` to `last`, live, and how many there are. */
export function useRows(query: JobsQuery, first: number, last: number) {
  const count = useQuery({
    queryKey: ["jobs", "count", query],
    queryFn: () => jobPage(query, 0, 0).then((found) => found.totalCount),
    refetchInterval: () => whileLive(LIVE_MS),
    placeholderData: keepPreviousData,
  });
  const isUnknown = count.data === undefined;
  const total = count.data ?? 0;
  const pages = useMemo(() => {
    const from = Math.floor(first / PAGE);
    const to = Math.floor(Math.max(Math.min(last, total - 1), 0) / PAGE);
    // The first page is asked for together with the count.
    if (isUnknown) return [0];
    return total ? Array.from({ length: Math.max(to - from + 1, 0) }, (_, index) => from + index) : [];
  }, [first, last, total, isUnknown]);
  const found = useQueries({
    queries: pages.map((page) => ({
      // The end of the list moves when jobs are added, and with it what a page from the end holds.
      queryKey: ["jobs", "rows", query, page, page * PAGE > total / 2 ? total : 0],
      queryFn: () => pageAt(query, page, total),
      refetchInterval: () => whileLive(LIVE_MS),
      placeholderData: keepPreviousData,
    })),
  });
  const byPage = new Map(pages.map((page, index) => [page, found[index]?.data]));
  const job = (index: number) => byPage.get(Math.floor(index / PAGE))?.[index % PAGE];
  const error = count.error ?? found.find((one) => one.error)?.error ?? null;
  return { total, job, error, isLoading: isUnknown, again: () => void count.refetch() };
}
