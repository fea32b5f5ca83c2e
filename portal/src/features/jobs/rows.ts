// The visible rows of a list of any length: pages of the server, fetched where the scroll bar stands.
import { keepPreviousData, useQueries, useQuery } from "@tanstack/react-query";
import { useCallback, useLayoutEffect, useMemo, useRef, useState } from "react";
import { jobPage, type JobsQuery, type JobSummary } from "@/api/jobs";
import { LIVE_MS } from "@/api/queries";

export const PAGE = 100;
// Browsers end the height of what scrolls at 16 to 33 million pixels; a longer list moves by more than a row for each.
const HEIGHT_MAX = 8_000_000;

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
    refetchInterval: LIVE_MS,
    placeholderData: keepPreviousData,
  });
  const total = count.data ?? 0;
  const pages = useMemo(() => {
    const from = Math.floor(first / PAGE);
    const to = Math.floor(Math.max(Math.min(last, total - 1), 0) / PAGE);
    return total ? Array.from({ length: Math.max(to - from + 1, 0) }, (_, index) => from + index) : [];
  }, [first, last, total]);
  const found = useQueries({
    queries: pages.map((page) => ({
      // The end of the list moves when jobs are added, and with it what a page from the end holds.
      queryKey: ["jobs", "rows", query, page, page * PAGE > total / 2 ? total : 0],
      queryFn: () => pageAt(query, page, total),
      refetchInterval: LIVE_MS,
      placeholderData: keepPreviousData,
    })),
  });
  const byPage = new Map(pages.map((page, index) => [page, found[index]?.data]));
  const job = (index: number) => byPage.get(Math.floor(index / PAGE))?.[index % PAGE];
  const error = count.error ?? found.find((one) => one.error)?.error ?? null;
  return { total, job, error, isLoading: count.data === undefined, again: () => void count.refetch() };
}

/** Returns which rows are in view, and where to draw them; `total` rows of one height scroll as one list. */
export function useWindow(total: number, height: number) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const measure = useCallback(() => {
    const found = box.current;
    if (found) setView({ top: found.scrollTop, height: found.clientHeight });
  }, []);
  useLayoutEffect(() => {
    const found = box.current;
    if (!found) return;
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(found);
    return () => watch.disconnect();
  }, [measure]);
  const whole = total * height;
  const drawn = Math.min(whole, HEIGHT_MAX);
  const room = Math.max(drawn - view.height, 1);
  // Where the list would be scrolled to if it had its whole height.
  const real = whole > drawn ? (Math.min(view.top, room) / room) * (whole - view.height) : view.top;
  const first = Math.max(Math.floor(real / height) - 4, 0);
  const last = Math.min(Math.ceil((real + view.height) / height) + 4, total - 1);
  return { box, onScroll: measure, drawn, first, last, topOf: (index: number) => index * height - real + view.top };
}
