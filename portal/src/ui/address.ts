// The state of a page is its address: filters and choices are in the query, so that every view can be sent to others.
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

export type Query = Record<string, string>;

/** Returns the query of the address, and a function that changes some of it; "" removes a key. */
export function useAddress(): [Query, (change: Query, options?: { push?: boolean }) => void] {
  const query = useSearch({ strict: false }) as Query;
  const navigate = useNavigate();
  const change = useCallback(
    (changed: Query, options: { push?: boolean } = {}) => {
      void navigate({
        to: ".",
        search: (old: Query) =>
          Object.fromEntries(Object.entries({ ...old, ...changed }).filter(([, value]) => value !== "")),
        replace: !options.push,
        resetScroll: false,
      } as never);
    },
    [navigate],
  );
  return [query, change];
}
