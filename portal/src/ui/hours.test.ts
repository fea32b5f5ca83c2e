import { i18n } from "@lingui/core";
import { beforeAll, expect, test } from "vitest";
import { hours } from "./hours";

beforeAll(() => i18n.loadAndActivate({ locale: "en", messages: {} }));

test("a few seconds are not nothing", () => {
  expect([0, 0.0004, 0.0123, 3.14159, 1234.5].map(hours)).toEqual(["0", "< 0.01", "0.01", "3.1", "1,235"]);
});
