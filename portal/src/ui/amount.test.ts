import { expect, test } from "vitest";
import { amount } from "./amount";

test("values are short, and have their unit", () => {
  expect(amount(1_536_000_000, "bytes")).toBe("1.54 GB");
  expect(amount(999, "bytes")).toBe("999 B");
  expect(amount(61.26, "percent")).toBe("61.3 %");
  expect(amount(100, "percent")).toBe("100 %");
  expect(amount(0.0042, "seconds")).toBe("4.2 ms");
  expect(amount(0, "seconds")).toBe("0 s");
  expect(amount(12_345, "")).toBe("12.3k");
  expect(amount(250, "watts")).toBe("250 watts");
  expect(amount(null, "percent")).toBe("–");
  expect(amount(-2_000, "bytes")).toBe("-2 KB");
});
