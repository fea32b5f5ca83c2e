// What the parts of the form share: the file as it is read, how they change it, and the faults that the server found.
import type { Document } from "yaml";
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
