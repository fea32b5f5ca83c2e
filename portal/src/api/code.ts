// The code of jobs at the server: which contents it lacks, and the code itself.
import { answer, http } from "./client";
import rules from "./codeRules.json";
import { upload } from "./upload";

/** Returns which of these contents the server lacks. */
export async function missingCode(hashes: readonly string[], signal: AbortSignal): Promise<Set<string>> {
  const missing = new Set<string>();
  for (let at = 0; at < hashes.length; at += rules.hashesMax) {
    const asked = http.POST("/api/v2/code/missing", { body: { hashes: hashes.slice(at, at + rules.hashesMax) }, signal });
    for (const hash of (await answer(asked)).missing) missing.add(hash);
  }
  return missing;
}

/** Sends packed code; `onProgress` gets the part that was sent, from 0 to 1. */
export function sendCode(digest: string, packed: Blob, onProgress: (part: number) => void, signal: AbortSignal): Promise<void> {
  return upload(`/api/v2/code/${digest}`, packed, { onProgress, signal });
}
