// What administrators do with storages: save, grant, test, remove.
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import type { Detail, Draft } from "./kinds";

export function useDetail(name: string) {
  return useQuery({ queryKey: ["storages", name], queryFn: () => answer(http.GET("/api/v2/storages/{name}", { params: { path: { name } } })) as Promise<Detail> });
}

export function useGroupNames() {
  return useQuery({ queryKey: ["groups"], queryFn: () => answer(http.GET("/api/v2/groups")) as Promise<Schemas["Group"][]>, select: (all) => all.map((group) => group.groupname) });
}

type Definition = Omit<Draft, "values"> & { values: Record<string, unknown> };

/** Saves a storage and its grants; an empty credential of a present one is kept by the server. */
export async function saveStorage({ name, kind, values, description, readOnly, share, groups }: Definition, before?: Detail): Promise<void> {
  const body = { name, type: kind, data: values, description, readOnly, share } as never;
  if (before) await answer(http.PUT("/api/v2/storages/{name}", { params: { path: { name } }, body }));
  else await answer(http.POST("/api/v2/storages", { body }));
  const had = before?.groups ?? [];
  for (const group of groups.filter((one) => !had.includes(one))) await answer(http.PUT("/api/v2/storages/{name}/groups/{group}", { params: { path: { name, group } } }));
  for (const group of had.filter((one) => !groups.includes(one))) await answer(http.DELETE("/api/v2/storages/{name}/groups/{group}", { params: { path: { name, group } } }));
}

export function removeStorage(name: string): Promise<unknown> {
  return answer(http.DELETE("/api/v2/storages/{name}", { params: { path: { name } } }));
}

export function testStorage(name: string): Promise<Schemas["StorageTest"]> {
  return answer(http.POST("/api/v2/storages/{name}/test", { params: { path: { name } } })) as Promise<Schemas["StorageTest"]>;
}
