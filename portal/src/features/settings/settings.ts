// Which settings are shown, and how a value is written.
import type { Schemas } from "@/api/client";

export type ServerSetting = Schemas["ServerSetting"];

/** Returns the settings with a word in their name, meaning or variable; only those that have no default if asked for. */
export function found(all: readonly ServerSetting[], word: string, isSetOnly: boolean): ServerSetting[] {
  const lower = word.trim().toLowerCase().replace(/^--/, "");
  return all.filter((one) => (!isSetOnly || one.source !== "default") && `${one.name} ${one.environment} ${one.meaning}`.toLowerCase().includes(lower));
}

/** Returns a value as the configuration file has it; a dash for none. */
export function shownValue(value: ServerSetting["value"]): string {
  return value === null || value === "" ? "–" : String(value);
}
