// Alerts, the rules that raise them, what they did, silences, and the channels of messages.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import { SLOW_MS } from "@/api/queries";

export type Alert = Schemas["Alert"];
export type Rule = Schemas["AlertRule"];
export type Silence = Schemas["Silence"];
export type Channel = Schemas["AlertChannel"];
export type Trial = Schemas["AlertRuleTest"];

const live = { refetchInterval: SLOW_MS } as const;

export function useAlerts() {
  return useQuery({ queryKey: ["alerts", "now"], queryFn: () => answer(http.GET("/api/v2/alerts")) as Promise<Alert[]>, ...live });
}

export function useRules() {
  return useQuery({ queryKey: ["alerts", "rules"], queryFn: () => answer(http.GET("/api/v2/alert-rules")) as Promise<Rule[]>, ...live });
}

export function useRule(name: string) {
  return useQuery({ queryKey: ["alerts", "rules", name], queryFn: () => answer(http.GET("/api/v2/alert-rules/{name}", { params: { path: { name } } })) as Promise<Rule>, enabled: Boolean(name) });
}

export function useRuleHistory(name: string, isOn: boolean) {
  return useQuery({
    queryKey: ["alerts", "rules", name, "history"],
    queryFn: () => answer(http.GET("/api/v2/alert-rules/history", { params: { query: { name } } })) as Promise<Schemas["AlertRuleChange"][]>,
    enabled: isOn,
  });
}

export function useActions() {
  return useQuery({ queryKey: ["alerts", "actions"], queryFn: () => answer(http.GET("/api/v2/alerts/actions")) as Promise<Schemas["AlertAction"][]>, ...live });
}

export function useMessages() {
  return useQuery({ queryKey: ["alerts", "messages"], queryFn: () => answer(http.GET("/api/v2/alerts/messages")) as Promise<Schemas["AlertMessage"][]>, ...live });
}

export function useSilences() {
  return useQuery({ queryKey: ["alerts", "silences"], queryFn: () => answer(http.GET("/api/v2/alerts/silences")) as Promise<Silence[]>, ...live });
}

export function useChannels() {
  return useQuery({ queryKey: ["alerts", "channels"], queryFn: () => answer(http.GET("/api/v2/alert-channels")) as Promise<Channel[]>, ...live });
}

/** Returns what asks for all of it again. */
export function useChanged() {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ queryKey: ["alerts"] });
}
