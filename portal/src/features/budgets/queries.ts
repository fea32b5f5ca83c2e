// Budgets of GPU hours; the server answers those that concern the caller.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import { SLOW_MS } from "@/api/queries";

export type Budget = Schemas["Budget"];
export type Kind = Budget["kind"];
const BUDGETS = ["budgets"];

export function useBudgets() {
  return useQuery({ queryKey: BUDGETS, queryFn: () => answer(http.GET("/api/v2/budgets")) as Promise<Budget[]>, refetchInterval: 3 * SLOW_MS });
}

export function useChanged() {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: BUDGETS });
}

/** Returns the names that a budget of this kind may have. */
export function useNames(kind: Kind) {
  return useQuery({
    queryKey: [...BUDGETS, "names", kind],
    queryFn: async (): Promise<string[]> => {
      if (kind === "user") return (await answer(http.GET("/api/v2/users"))).map((user) => user.username);
      if (kind === "group") return (await answer(http.GET("/api/v2/groups"))).map((group) => group.groupname);
      return Object.keys(await answer(http.GET("/api/v2/virtual-clusters")));
    },
  });
}

/** Returns the option of `pai budget` that names whose budget it is. */
export function optionOf(kind: Kind): string {
  return `--${kind}`;
}
