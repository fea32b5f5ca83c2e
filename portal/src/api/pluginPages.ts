// The pages of other servers that the administrators of this platform chose for the portal.
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "./client";

export function usePluginPages() {
  return useQuery({
    queryKey: ["plugin-pages"],
    queryFn: () => answer(http.GET("/api/v2/plugin-pages")) as Promise<Schemas["PluginPage"][]>,
    // A setting of the server: another value needs a restart.
    staleTime: 300_000,
  });
}
