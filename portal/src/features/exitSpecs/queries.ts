// Exit specs, their changes, and trials of edits.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { parse, stringify } from "yaml";
import { answer, http, type Schemas } from "@/api/client";

export type Entry = Schemas["ExitSpecEntry"];
export type Detail = Schemas["ExitSpecDetail"];
export type Test = Schemas["ExitSpecTest"];
const SPECS = ["exit-specs"];

export function useExitSpecs() {
  return useQuery({ queryKey: SPECS, queryFn: () => answer(http.GET("/api/v2/exit-specs")) as Promise<Entry[]> });
}

export function useExitSpec(name: string) {
  return useQuery({ queryKey: [...SPECS, name], queryFn: () => answer(http.GET("/api/v2/exit-specs/{name}", { params: { path: { name } } })) as Promise<Detail>, enabled: Boolean(name) });
}

export function useHistory(name: string, isOn: boolean) {
  return useQuery({
    queryKey: [...SPECS, name, "history"],
    queryFn: () => answer(http.GET("/api/v2/exit-specs/history", { params: { query: { name } } })) as Promise<Schemas["ExitSpecChange"][]>,
    enabled: isOn,
  });
}

export function useChanged() {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: SPECS });
}

export function written(spec: unknown): string {
  return stringify(spec, { lineWidth: 110 });
}

/** Returns what an editor holds; throws an error with the line for text that is no YAML object. */
export function read(text: string): Record<string, unknown> {
  const found: unknown = parse(text);
  if (typeof found !== "object" || found === null || Array.isArray(found)) throw new Error("summary, domain, retry, …");
  return found as Record<string, unknown>;
}
