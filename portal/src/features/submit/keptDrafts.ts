// Job files that were begun and not submitted. They outlive the tab and the login in the browser's storage, for each user
// by themselves, and without any secret.
import { isMap, isScalar, parseDocument, Scalar, visit } from "yaml";

export interface Draft {
  id: string;
  name: string;
  text: string;
  ms: number;
}

const COUNT_MAX = 20;
const LENGTH_MAX = 200_000;
/** What stands for a value that is not shown: the server asks for another one. */
const MASK = "******";
const SECRET = /secret|password/i;

function keyOf(user: string): string {
  return `pai-drafts:${user}`;
}

/** Returns the file without the values of secrets and passwords; undefined where they cannot be found with certainty. */
export function withoutSecrets(text: string): string | undefined {
  const document = parseDocument(text);
  if (document.errors.length) return SECRET.test(text) ? undefined : text;
  const values: string[] = [];
  const keep = (node: unknown): void => visit(node as never, {
    Scalar: (key, scalar) => void (key !== "key" && values.push(String(scalar.value ?? ""))),
    Alias: (_, alias) => keep(alias.resolve(document)),
  });
  visit(document, {
    Pair(_, pair) {
      const key = isScalar(pair.key) ? String(pair.key.value) : "";
      if (key === "secrets") {
        keep(pair.value);
        const names = isMap(pair.value) ? pair.value.items.map((item) => (isScalar(item.key) ? String(item.key.value) : "")) : [];
        pair.value = document.createNode(Object.fromEntries(names.map((name) => [name, MASK])));
        return visit.SKIP;
      }
      if (key === "password" && !/^<%.*%>$/.test(isScalar(pair.value) ? String(pair.value.value) : "")) {
        keep(pair.value);
        pair.value = new Scalar(MASK);
        return visit.SKIP;
      }
      return undefined;
    },
  });
  if (!values.length) return text;
  try {
    const kept = document.toString({ lineWidth: 0 });
    // An anchor, a comment or a command may hold the same value.
    return values.some((value) => value && value !== MASK && kept.includes(value)) ? undefined : kept;
  } catch {
    return undefined;
  }
}

/** Returns the drafts of a user, newest first. */
export function draftsOf(user: string): Draft[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(keyOf(user)) ?? "[]");
    return Array.isArray(found) ? (found as Draft[]) : [];
  } catch {
    return [];
  }
}

function write(user: string, drafts: readonly Draft[]): void {
  try {
    localStorage.setItem(keyOf(user), JSON.stringify(drafts));
  } catch {
    // The browser has no more room: what was kept before stays.
  }
}

/** Keeps a draft, in the place of the one with its id, which stays where the file may hold a secret or is very long. */
export function keepDraft(user: string, id: string, text: string, ms: number): void {
  // While YAML is typed it is often wrong for a moment.
  const kept = text.length > LENGTH_MAX ? undefined : withoutSecrets(text);
  if (kept === undefined) return;
  const others = draftsOf(user).filter((one) => one.id !== id);
  const name = /^name:\s*["']?([^"'\n]{1,80})/m.exec(text)?.[1]?.trim() ?? "";
  write(user, [{ id, name, text: kept, ms }, ...others].slice(0, COUNT_MAX));
}

export function removeDraft(user: string, id: string): void {
  write(user, draftsOf(user).filter((one) => one.id !== id));
}
