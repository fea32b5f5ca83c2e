// Groups, what they may grant, and who is in them.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";

export type Group = Schemas["Group"];
const GROUPS = ["groups"];

export function useGroups() {
  return useQuery({ queryKey: GROUPS, queryFn: () => answer(http.GET("/api/v2/groups")) as Promise<Group[]> });
}

export function useMembers(groupname: string) {
  return useQuery({
    queryKey: [...GROUPS, groupname, "members"],
    queryFn: () => answer(http.GET("/api/v2/groups/{groupname}/userlist", { params: { path: { groupname } } })) as Promise<Schemas["Member"][]>,
  });
}

export function useStorageNames() {
  return useQuery({
    queryKey: ["storages"],
    queryFn: () => answer(http.GET("/api/v2/storages")) as Promise<Schemas["StorageList"]>,
    select: (found) => found.storages.map((storage) => storage.name),
  });
}

export function useChanged() {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: GROUPS });
}
