// How often to ask, and again after what may pass by itself.
import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "./client";

/** For what users watch: asked again this often while the page is visible. */
export const LIVE_MS = 2_000;
/** For what changes slowly. */
export const SLOW_MS = 10_000;

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (count, error) => (error instanceof ApiError && error.isTemporary ? count < 1_000 : false),
      retryDelay: (count) => Math.min(500 * 2 ** count, 5_000),
      staleTime: 1_000,
      // What was shown stays while the server restarts.
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});
