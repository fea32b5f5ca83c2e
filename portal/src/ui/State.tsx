// The state of a job or a task: a word, an icon and a colour, never a colour alone.
import { i18n } from "@lingui/core";
import { Icon, type IconName } from "./Icon";
import css from "./State.module.css";

export const STATES = ["RUNNING", "WAITING", "FAILED", "SUCCEEDED", "STOPPED", "STOPPING"] as const;
export type State = (typeof STATES)[number];

const ICONS: Record<State, IconName> = {
  RUNNING: "play",
  WAITING: "clock",
  FAILED: "fail",
  SUCCEEDED: "done",
  STOPPED: "stop",
  STOPPING: "stop",
};

export function stateName(state: State): string {
  switch (state) {
    case "RUNNING":
      return i18n.t("Running");
    case "WAITING":
      return i18n.t("Waiting");
    case "FAILED":
      return i18n.t("Failed");
    case "SUCCEEDED":
      return i18n.t("Succeeded");
    case "STOPPED":
      return i18n.t("Stopped");
    case "STOPPING":
      return i18n.t("Stopping");
  }
}

export function isOver(state: State): boolean {
  return state === "FAILED" || state === "SUCCEEDED" || state === "STOPPED";
}

export function StateBadge({ state }: { state: State }) {
  return (
    <span className={css.badge} data-state={state}>
      <Icon name={ICONS[state]} size={14} />
      {stateName(state)}
    </span>
  );
}

/** How many jobs of a set are in each state. */
export function StateCounts({ states }: { states: Partial<Record<State, number>> }) {
  const found = STATES.filter((state) => states[state]);
  const text = found.map((state) => `${states[state]} ${stateName(state)}`).join(", ");
  return (
    <span className={css.counts} title={text}>
      {found.map((state) => <span key={state}><StateIcon state={state} size={14} />{states[state]}<span className="hidden"> {stateName(state)}</span></span>)}
    </span>
  );
}

export function StateIcon({ state, size = 18 }: { state: State; size?: number }) {
  return <span className={css.icon} data-state={state}><Icon name={ICONS[state]} size={size} /></span>;
}
