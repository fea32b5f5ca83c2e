// What several pages ask about nodes and virtual clusters.
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "./client";
import { whileLive } from "./live";
import { LIVE_MS } from "./queries";

export type Node = Schemas["Node"];
export type VirtualCluster = Schemas["VirtualCluster"];

export function useNodes() {
  return useQuery({
    queryKey: ["nodes"],
    queryFn: () => answer(http.GET("/api/v2/nodes")) as Promise<Node[]>,
    refetchInterval: () => whileLive(LIVE_MS * 2),
  });
}

export function useVirtualClusters() {
  return useQuery({
    queryKey: ["virtual-clusters"],
    queryFn: () => answer(http.GET("/api/v2/virtual-clusters")) as Promise<Record<string, VirtualCluster>>,
    refetchInterval: () => whileLive(LIVE_MS * 2),
  });
}

/** Asks which SKU types a virtual cluster has, with the CPUs and memory that belong to one GPU of each. */
export function useSkus(vc: string) {
  return useQuery({
    queryKey: ["skus", vc],
    queryFn: () => answer(http.GET("/api/v2/cluster/sku-types", { params: { query: { vc } } })) as Promise<Record<string, Schemas["Sku"]>>,
    enabled: Boolean(vc),
    staleTime: 30_000,
    retry: false,
  });
}

/** Asks which quotas hold for oneself, and how much of them is used. */
export function useOwnQuotas() {
  return useQuery({ queryKey: ["quotas", "me"], queryFn: () => answer(http.GET("/api/v2/quotas/me")), refetchInterval: () => whileLive(5 * LIVE_MS) });
}
