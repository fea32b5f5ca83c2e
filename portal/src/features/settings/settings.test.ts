import { expect, test } from "vitest";
import { found, shownValue, type ServerSetting } from "./settings";

function setting(name: string, more: Partial<ServerSetting> = {}): ServerSetting {
  return { name, environment: `PAI_${name.toUpperCase()}`, value: 1, default: 1, source: "default", file: "", meaning: "", choices: [], hidden: false, ...more };
}

test("settings are found by name, variable, option and meaning", () => {
  const all = [setting("port", { meaning: "where it listens" }), setting("host", { source: "file" })];
  const names = (word: string, isSetOnly = false) => found(all, word, isSetOnly).map((one) => one.name);
  expect([names("PAI_HOST"), names("--port"), names("listens"), names("nothing")]).toEqual([["host"], ["port"], ["port"], []]);
  expect([names("", true), names("port", true)]).toEqual([["host"], []]);
});

test("values are written as in the file", () => {
  expect([shownValue(null), shownValue(false), shownValue(0), shownValue("")]).toEqual(["–", "false", "0", "–"]);
});
