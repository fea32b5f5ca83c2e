// Which storages a user may use.
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "./client";

export function useStorages() {
  return useQuery({ queryKey: ["storages"], queryFn: () => answer(http.GET("/api/v2/storages")) as Promise<Schemas["StorageList"]> });
}
