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
