// The address of a plug-in page for one user, and why it may not be shown in a frame.

/** Returns an address with values for `{user}`, `{theme}` and `{language}`. */
export function filled(address: string, values: Record<string, string>): string {
  return address.replace(/\{(\w+)\}/g, (whole, word: string) => (word in values ? encodeURIComponent(values[word] ?? "") : whole));
}

/** Returns what keeps a page out of a frame: it is of this origin, or without HTTPS where this page has it. */
export function obstacle(address: string, here: Pick<Location, "origin" | "protocol"> = location): "own" | "mixed" | undefined {
  const { origin, protocol } = new URL(address);
  if (origin === here.origin) return "own";
  return here.protocol === "https:" && protocol === "http:" ? "mixed" : undefined;
}
