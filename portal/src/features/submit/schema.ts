// What the server's schema of job files says about a place in a file.
import schema from "@/api/jobFile.json";
import type { Place } from "./cursor";

export interface Node {
  $ref?: string;
  type?: string | string[];
  description?: string;
  enum?: unknown[];
  const?: unknown;
  examples?: unknown[];
  properties?: Record<string, Node>;
  patternProperties?: Record<string, Node>;
  additionalProperties?: boolean | Node;
  items?: Node;
  anyOf?: Node[];
  oneOf?: Node[];
  $defs?: Record<string, Node>;
  required?: string[];
}

const ROOT = schema as unknown as Node;

/** Returns what a node may be, without references and null. */
export function formsOf(node: Node): Node[] {
  if (node.$ref) return formsOf(ROOT.$defs?.[node.$ref.slice("#/$defs/".length)] ?? {});
  const forms = node.anyOf ?? node.oneOf;
  return forms ? forms.flatMap(formsOf).filter((form) => form.type !== "null") : [node];
}

/** Returns what may stand at a path. */
export function nodesAt(path: Place["path"]): Node[] {
  return path.reduce<Node[]>((nodes, key) => nodes.flatMap((node) => insideOf(node, key)).flatMap(formsOf), [ROOT]);
}

function insideOf(node: Node, key: string | 0): Node[] {
  if (key === 0) return node.items ? [node.items] : [];
  const known = node.properties?.[key];
  if (known) return [known];
  const named = Object.entries(node.patternProperties ?? {}).filter(([pattern]) => new RegExp(pattern).test(key)).map(([, one]) => one);
  return typeof node.additionalProperties === "object" ? [...named, node.additionalProperties] : named;
}

/** Returns the keys that may be written at a place and are not yet; those that must be there first. */
export function keysAt({ path, others }: Place): { key: string; node: Node; isRequired: boolean }[] {
  const found = new Map<string, { key: string; node: Node; isRequired: boolean }>();
  for (const form of nodesAt(path)) {
    const properties = Object.entries(form.properties ?? {});
    // What another key says may decide which form this is, as the type of a prerequisite does.
    if (properties.some(([key, node]) => node.const !== undefined && others.has(key) && others.get(key) !== String(node.const))) continue;
    for (const [key, node] of properties)
      if (!others.has(key) && !found.has(key)) found.set(key, { key, node, isRequired: form.required?.includes(key) ?? false });
  }
  return [...found.values()].sort((one, other) => Number(other.isRequired) - Number(one.isRequired));
}

/** Returns the values that the schema names for a path. */
export function valuesAt(path: Place["path"]): { value: string; node: Node }[] {
  const found = new Map<string, Node>();
  for (const node of nodesAt(path)) {
    const values = node.enum ?? (node.const !== undefined ? [node.const] : node.type === "boolean" ? [true, false] : []);
    for (const value of values) if (!found.has(String(value))) found.set(String(value), node);
  }
  return [...found].map(([value, node]) => ({ value, node }));
}

/** Returns what is written after a key: the start of its value. */
export function opening(node: Node, indent: number): string {
  const [form] = formsOf(node);
  const inner = `\n${" ".repeat(indent + 2)}`;
  if (form?.type === "array") return `:${inner}- `;
  return form?.type === "object" ? `:${inner}` : ": ";
}
