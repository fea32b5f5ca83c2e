import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Leaves a compressed form beside each file, so that the server compresses nothing. */
function compressed(): Plugin {
  let out = "";
  return {
    name: "compressed",
    apply: "build",
    configResolved(config) {
      out = config.build.outDir;
    },
    closeBundle() {
      for (const entry of readdirSync(out, { recursive: true, withFileTypes: true })) {
        const path = join(entry.parentPath, entry.name);
        if (!entry.isFile() || !/\.(js|css|html|svg)$/.test(path)) continue;
        const content = readFileSync(path);
        writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
        writeFileSync(`${path}.br`, brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }));
      }
    },
  };
}

export default defineConfig({
  plugins: [react(), compressed()],
  resolve: { alias: { "@": "/src" } },
  build: {
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0,
    // A few kilobytes more at once, but no page can miss its styles.
    cssCodeSplit: false,
    // A browser that lacks it is too old for the rest; it would be an inline script.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    // `npm run dev` beside `pai up --backend simulated`.
    proxy: { "^/(api|docs|openapi.json|static-offline-docs)": process.env.PAI_URL ?? "http://127.0.0.1:9186" },
  },
});
