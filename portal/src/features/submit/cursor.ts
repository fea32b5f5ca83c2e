// Where in a YAML file the cursor is. Lines and their indentation say it, since a file that is being typed is rarely YAML.

/** The place at the cursor: a key that may begin here, or the value of the last key of `path`. */
export interface Place {
  kind: "key" | "value";
  /** The keys above, 0 for each entry of a list. */
  path: readonly (string | 0)[];
  /** The other keys of the same mapping, with their values as written. */
  others: ReadonlyMap<string, string>;
  /** What is typed of the word, and where it begins. */
  word: string;
  from: number;
  /** The indentation of keys beside this one. */
  indent: number;
}

interface Token {
  column: number;
  /** None for the dash of a list's entry. */
  key?: string;
  value: string;
}

const KEY = /^("[^"]*"|'[^']*'|[^\s#"'\-[{][^:#]*?|-[^\s:#][^:#]*?)\s*:(?:\s+(.*))?$/;

/** Returns the dashes and the key of a line, from the left. */
function tokensOf(line: string): Token[] {
  const tokens: Token[] = [];
  let column = line.search(/\S|$/);
  let rest = line.slice(column);
  if (rest.startsWith("#")) return tokens;
  for (let dash = /^-(\s+|$)/.exec(rest); dash; dash = /^-(\s+|$)/.exec(rest)) {
    rest = rest.slice(dash[0].length);
    tokens.push({ column, value: rest });
    column += dash[0].length;
  }
  const key = KEY.exec(rest);
  if (key?.[1]) tokens.push({ column, key: key[1].replace(/^(["'])(.*)\1$/, "$2"), value: key[2]?.trim() ?? "" });
  return tokens;
}

const BLOCK = /^[|>][-+0-9]*\s*(#.*)?$/;

/** Returns the tokens of each line; a line of a text in a block has none. */
function structureOf(lines: readonly string[]): { tokens: Token[]; isText: boolean }[] {
  let block = -1;
  return lines.map((line) => {
    const indent = line.search(/\S/);
    if (block >= 0 && (indent < 0 || indent > block)) return { tokens: [], isText: true };
    block = -1;
    const tokens = tokensOf(line);
    const last = tokens.at(-1);
    if (last && BLOCK.test(last.value)) block = last.column;
    return { tokens, isText: false };
  });
}

/** Returns the place at a position; undefined in comments, in texts of several lines, and in `{…}` and `[…]`. */
export function placeAt(text: string, position: number): Place | undefined {
  const start = text.lastIndexOf("\n", position - 1) + 1;
  const before = text.slice(start, position);
  const lines = text.split("\n");
  const row = text.slice(0, start).split("\n").length - 1;
  // An empty line of a text in a block is as deep as the cursor.
  if (!lines[row]?.trim()) lines[row] = `${before}x`;
  const structure = structureOf(lines);
  if (structure[row]?.isText || /(^|\s)#/.test(before)) return undefined;
  const dashes = /^\s*(?:-\s+)*/.exec(before)?.[0] ?? "";
  const typed = before.slice(dashes.length);
  const own = tokensOf(before).filter((token) => token.key === undefined);
  const value = /^(.*?\S)\s*:\s+(.*)$/.exec(typed);
  if (value?.[1] !== undefined && value[2] !== undefined) {
    if (/^["'[{|>&*!]/.test(value[2])) return undefined;
    const key = value[1].replace(/^(["'])(.*)\1$/, "$2");
    const above = pathTo(structure, row, dashes.length, own);
    return { kind: "value", path: [...above, key], others: keysBeside(structure, row, dashes.length), word: value[2], from: position - value[2].length, indent: dashes.length };
  }
  if (!/^[\w.-]*$/.test(typed)) return undefined;
  const path = pathTo(structure, row, dashes.length, own);
  return { kind: "key", path, others: keysBeside(structure, row, dashes.length), word: typed, from: position - typed.length, indent: dashes.length };
}

function pathTo(structure: readonly { tokens: Token[] }[], row: number, column: number, own: readonly Token[]): (string | 0)[] {
  const path: (string | 0)[] = [];
  let limit = column;
  let isEntry = false;
  for (let at = row; at >= 0 && (limit > 0 || isEntry); at -= 1) {
    for (const token of (at === row ? own : (structure[at]?.tokens ?? [])).toReversed()) {
      // The dashes of a list may stand right below its key.
      const isAbove = token.column < limit || (isEntry && token.key !== undefined && token.column === limit);
      if (!isAbove) continue;
      path.unshift(token.key ?? 0);
      limit = token.column;
      isEntry = token.key === undefined;
    }
  }
  return path;
}

function keysBeside(structure: readonly { tokens: Token[] }[], row: number, column: number): Map<string, string> {
  const found = new Map<string, string>();
  const take = (at: number): boolean => {
    const tokens = structure[at]?.tokens ?? [];
    const key = tokens.find((token) => token.column === column && token.key !== undefined);
    if (key?.key !== undefined && at !== row) found.set(key.key, key.value);
    return tokens.some((token) => token.column < column);
  };
  if (!take(row)) for (let at = row - 1; at >= 0 && !take(at); at -= 1);
  for (let at = row + 1; at < structure.length; at += 1) {
    if ((structure[at]?.tokens ?? []).some((token) => token.column < column)) break;
    take(at);
  }
  return found;
}
