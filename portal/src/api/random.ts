// Identifiers by chance, and hashes: browsers keep `crypto.randomUUID` and `crypto.subtle` from pages that came over plain
// HTTP from another machine.
import { part } from "./parts";

/** Returns a name that nobody else has. */
export function uniqueId(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns the SHA-256 of parts as they come. */
export async function sha256(parts: Iterable<Uint8Array> | AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const hash = (await part(() => import("@noble/hashes/sha2.js"))).sha256.create();
  for await (const part of parts) hash.update(part);
  return hash.digest();
}
