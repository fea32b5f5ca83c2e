// Changes of promises as the address and the command line write them: vision=+8,speech=-8.
export interface Change {
  name: string;
  gpus: number;
}

export function changesOf(text: string): Change[] {
  return text.split(",").flatMap((piece) => {
    const [name = "", number] = piece.split("=");
    const gpus = Number(number);
    return name && Number.isInteger(gpus) && gpus !== 0 ? [{ name, gpus }] : [];
  });
}

export function writtenOf(changes: readonly Change[]): string {
  return changes.filter(({ name, gpus }) => name && gpus).map(({ name, gpus }) => `${name}=${gpus > 0 ? "+" : ""}${gpus}`).join(",");
}
