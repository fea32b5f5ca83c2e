// What the parts of the form share: the file as it is read, how they change it, and the faults that the server found.
import { isMap, isScalar, isSeq, type Document, type Node } from "yaml";
import type { Fault } from "@/api/client";

export type Path = readonly (string | number)[];

export interface Fields {
  document: Document;
  /** The first task role, which the form is about. */
  role: string;
  /** The path of that role. */
  at: Path;
  /** Changes the file; its comments and other keys stay. */
  edit: (change: (document: Document) => void) => void;
  faults: readonly Fault[];
}

/** Returns the value at a path as text; "" for what is not a single value. */
export function textAt({ document }: Fields, path: Path): string {
  const value = document.getIn(path);
  return value === undefined || value === null || typeof value === "object" ? "" : String(value);
}

/** Returns a path as the server names it in faults: `taskRoles.worker.commands[0]`. */
export function nameOf(path: Path): string {
  return path.map((part, index) => (typeof part === "number" ? `[${part}]` : `${index ? "." : ""}${part}`)).join("");
}

/** Returns what the server found wrong at a path or inside of it; undefined where nothing is. */
export function faultAt({ faults }: Fields, path: Path): string | undefined {
  const name = nameOf(path);
  const found = faults.find((fault) => fault.path === name || fault.path.startsWith(`${name}.`) || fault.path.startsWith(`${name}[`));
  return found && [found.message, found.allowed].filter(Boolean).join("; ");
}

/** Returns the line of a path in the file, or of its nearest parent that is there; the first line without one. */
export function lineOf(document: Document, text: string, path: string): number {
  let node: unknown = document.contents;
  let at = 0;
  let rest = path;
  while (rest) {
    if (isMap(node)) {
      const keys = node.items.filter((item) => isScalar(item.key)).map((item) => ({ key: item.key as Node, name: String((item.key as { value: unknown }).value), value: item.value }));
      // A key may have dots itself.
      const item = keys.filter(({ name }) => rest === name || rest.startsWith(`${name}.`) || rest.startsWith(`${name}[`)).toSorted((one, other) => other.name.length - one.name.length)[0];
      if (!item) break;
      at = item.key.range?.[0] ?? at;
      node = item.value;
      rest = rest.slice(item.name.length).replace(/^\./, "");
    } else {
      const index = /^\[(\d+)\]\.?/.exec(rest);
      const entry = index && isSeq(node) ? (node.items[Number(index[1])] as Node | undefined) : undefined;
      if (!index || !entry) break;
      at = entry.range?.[0] ?? at;
      node = entry;
      rest = rest.slice(index[0].length);
    }
  }
  return text.slice(0, at).split("\n").length;
}
