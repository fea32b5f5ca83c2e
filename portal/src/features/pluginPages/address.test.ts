import { expect, test } from "vitest";
import { filled, obstacle } from "./address";

test("values cannot change what an address leads to", () => {
  const values = { user: "a/../b?c=d&e#f", theme: "dark", language: "zh" };
  expect(filled("https://a.org/{user}?t={theme}&l={language}&o={other}", values)).toBe("https://a.org/a%2F..%2Fb%3Fc%3Dd%26e%23f?t=dark&l=zh&o={other}");
});

test("a page of the portal's own origin is never framed, nor one that the browser would block", () => {
  const here = { origin: "https://pai.example.org", protocol: "https:" };
  expect(obstacle("https://PAI.example.org:443/x", here)).toBe("own");
  expect(obstacle("http://wiki.example.org/", here)).toBe("mixed");
  expect(obstacle("https://wiki.example.org/", here)).toBeUndefined();
  expect(obstacle("http://127.0.0.1:9000/", { origin: "http://127.0.0.1:9186", protocol: "http:" })).toBeUndefined();
});
