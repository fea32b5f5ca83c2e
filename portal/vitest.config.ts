import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { alias: { "@": `${import.meta.dirname}/src` } },
  // They share one process: to start another for each file takes longer than all tests together.
  test: { include: ["src/**/*.test.{ts,tsx}"], environment: "node", isolate: false, fileParallelism: false },
});
