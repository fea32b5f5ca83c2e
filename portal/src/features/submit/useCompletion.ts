// Completion for the editor of this page, loaded beside the page, with the names that the user may write.
import type { Extension } from "@codemirror/state";
import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { useSkus, useVirtualClusters } from "@/api/cluster";
import { part } from "@/api/parts";
import { useMe } from "@/api/session";
import { useStorages } from "@/api/storages";
import type { Names } from "./completing";

/** Returns the virtual clusters to which a user may submit. */
export function useOwnVirtualClusters(): string[] {
  const me = useMe().data;
  return Object.keys(useVirtualClusters().data ?? {}).filter((vc) => me?.admin || me?.virtualCluster.includes(vc)).sort();
}

/** Returns completion for job files of a virtual cluster, undefined until it is loaded. */
export function useCompletion(vc: string): Extension | undefined {
  const names = useRef<Names>({ virtualClusters: [], skus: [], storages: [] });
  names.current = {
    virtualClusters: useOwnVirtualClusters(),
    skus: Object.keys(useSkus(vc).data ?? {}).sort(),
    storages: (useStorages().data?.storages ?? []).map((one) => one.name).sort(),
  };
  return useQuery({
    queryKey: ["completion"],
    queryFn: async () => (await part(() => import("./completing"))).jobFileCompletion(() => names.current),
    staleTime: Infinity,
    gcTime: 0,
  }).data;
}
