// Items of the marketplace.
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { parse } from "yaml";
import { answer, http, type Schemas } from "@/api/client";
import type { Query } from "@/ui/address";

export type Item = Schemas["MarketItem"];
export type Detail = Schemas["MarketDetail"];
export type Text = Schemas["MarketRevision"];
export type Kind = Item["kind"];
type Order = "stars" | "uses" | "newest" | "name";
export const KINDS: readonly Kind[] = ["template", "dataset", "model"];
export const PAGE = 24;
const MARKET = "market";

/** Returns one page of the items that fit the address. */
export function useItems(query: Query, user: string) {
  const kind = KINDS.find((one) => one === query["kind"]);
  const order: Order = (["uses", "newest", "name"] as const).find((one) => one === query["order"]) ?? "stars";
  const asked = {
    keyword: query["q"] ?? "",
    kind: kind && [kind],
    category: query["category"] ? [query["category"]] : undefined,
    tag: query["tag"] ? [query["tag"]] : undefined,
    author: query["show"] === "mine" ? user : (query["author"] ?? ""),
    starred: query["show"] === "starred",
    official: query["show"] === "official" ? true : undefined,
    status: query["show"] === "waiting" ? ("waiting" as const) : ("" as const),
    order,
    limit: PAGE,
    offset: (Math.max(1, Number(query["page"]) || 1) - 1) * PAGE,
  };
  return useQuery({
    queryKey: [MARKET, "list", asked],
    queryFn: () => answer(http.GET("/api/v2/market/items", { params: { query: asked } })) as Promise<Schemas["MarketPage"]>,
    placeholderData: keepPreviousData,
  });
}

export function useCategories() {
  return useQuery({ queryKey: [MARKET, "categories"], queryFn: () => answer(http.GET("/api/v2/market/categories")) as Promise<Schemas["MarketCategory"][]> });
}

export function useItem(item: string) {
  return useQuery({ queryKey: [MARKET, "item", item], queryFn: () => answer(http.GET("/api/v2/market/items/{item}", { params: { path: { item } } })) as Promise<Detail>, enabled: Boolean(item) });
}

export function useRevisions(item: string) {
  return useQuery({ queryKey: [MARKET, "item", item, "revisions"], queryFn: () => answer(http.GET("/api/v2/market/items/{item}/revisions", { params: { path: { item } } })) as Promise<Schemas["MarketEdit"][]> });
}

export function useMarketSettings() {
  return useQuery({ queryKey: [MARKET, "settings"], queryFn: () => answer(http.GET("/api/v2/market/settings")) as Promise<Schemas["MarketSettings"]> });
}

/** Returns a function that asks for items again; a given one is shown at once. */
export function useChanged() {
  const queries = useQueryClient();
  return async (item?: Detail) => {
    if (item) queries.setQueryData([MARKET, "item", item.name], item);
    await queries.invalidateQueries({ queryKey: [MARKET] });
  };
}

/** Returns what a user typed for a parameter, in the type of its default. */
export function valueOf(typed: string, usual: unknown): unknown {
  if (typeof usual === "string") return typed;
  try {
    return parse(typed) as unknown;
  } catch {
    return typed;
  }
}

export function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

export function useRevision(item: string, revision: number) {
  return useQuery({
    queryKey: [MARKET, "item", item, "revisions", revision],
    queryFn: () => answer(http.GET("/api/v2/market/items/{item}/revisions/{revision}", { params: { path: { item, revision } } })) as Promise<Text>,
    staleTime: Infinity,
  });
}
