// Accounts and groups, as administrators see them.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";

export type User = Schemas["User"];
export type Group = Schemas["Group"];
const USERS = ["users"];

export function useUsers() {
  return useQuery({ queryKey: USERS, queryFn: () => answer(http.GET("/api/v2/users")) as Promise<(User | Schemas["PublicUser"])[]> });
}

export function useGroups() {
  return useQuery({ queryKey: ["groups"], queryFn: () => answer(http.GET("/api/v2/groups")) as Promise<Group[]> });
}

/** Returns a function that has the accounts read again. */
export function useChanged() {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: USERS });
}

/** Returns whether the caller sees this account in full. */
export function isFull(user: User | Schemas["PublicUser"]): user is User {
  return "grouplist" in user;
}
