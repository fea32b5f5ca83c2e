import { defineConfig } from "@lingui/cli";
import { formatter } from "@lingui/format-po";

export default defineConfig({
  sourceLocale: "en",
  locales: ["en", "zh"],
  catalogs: [{ path: "<rootDir>/src/locales/{locale}", include: ["src"] }],
  compileNamespace: "ts",
  orderBy: "messageId",
  // Lines change with every edit, and two branches that both edit a file would not merge.
  format: formatter({ origins: false, explicitIdAsDefault: true }),
});
