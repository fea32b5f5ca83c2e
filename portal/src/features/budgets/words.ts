// What a budget says, as words.
import { i18n } from "@lingui/core";
import type { Budget, Kind } from "./queries";

export function kindName(kind: Kind): string {
  return { user: i18n.t("User"), group: i18n.t("Group"), vc: i18n.t("Virtual cluster") }[kind];
}

export function periodName(period: Budget["period"]): string {
  return { month: i18n.t("each month"), quarter: i18n.t("each quarter"), total: i18n.t("in total") }[period];
}

export function stopsName(stops: Budget["stops"]): string {
  return {
    none: i18n.t("accepted jobs run on"),
    opportunistic: i18n.t("opportunistic jobs are stopped"),
    all: i18n.t("all jobs with GPUs are stopped"),
  }[stops];
}

/** Says what happens once the budget is used up. */
export function then({ stops, noticeMinutes }: Budget): string {
  const refused = i18n.t("New jobs with GPUs are refused");
  if (stops === "none") return i18n.t("{refused}; {stopped}.", { refused, stopped: stopsName(stops) });
  return i18n.t("{refused}; {stopped}, {minutes} minutes after a notice.", { refused, stopped: stopsName(stops), minutes: noticeMinutes });
}

export type Tone = "good" | "warn" | "bad";

/** Returns whether the use reached a share to warn of, or all. */
export function toneOf(budget: Budget): Tone {
  if (budget.usedUpAt !== null || budget.gpuHoursUsed >= budget.gpuHours) return "bad";
  return budget.warnAt.some((share) => budget.gpuHoursUsed >= share * budget.gpuHours) ? "warn" : "good";
}
