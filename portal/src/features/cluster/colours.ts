// Colours of jobs on the map: those that are there at the same time differ, and a job keeps its own while it can.

/** Hues and lightness that differ at a glance; red is for what is bad. */
const COLOURS: readonly string[] = [58, 42, 72].flatMap((lightness, row) =>
  [225, 160, 275, 45, 195, 315, 90, 250, 25, 130, 300, 180].map((hue) => `hsl(${(hue + 6 * row) % 360} ${62 - 8 * row}% ${lightness}%)`),
);

/** Returns a colour for each job: two have the same one only where there are more jobs than colours. */
export function coloursOf(jobs: readonly string[]): Map<string, string> {
  const taken = new Set<number>();
  const found = new Map<string, string>();
  // In the order of their names, so that a job that comes or goes changes few others.
  for (const job of [...jobs].sort()) {
    if (taken.size === COLOURS.length) taken.clear();
    let place = hashOf(job) % COLOURS.length;
    while (taken.has(place)) place = (place + 1) % COLOURS.length;
    taken.add(place);
    found.set(job, COLOURS[place] ?? "");
  }
  return found;
}

function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (const letter of text) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x01000193) >>> 0;
  return hash;
}
