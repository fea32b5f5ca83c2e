import { defineConfig } from "@lingui/cli";

export default defineConfig({
  sourceLocale: "en",
  locales: ["en", "zh"],
  catalogs: [{ path: "<rootDir>/src/locales/{locale}", include: ["src"] }],
  compileNamespace: "ts",
  orderBy: "message",
});
