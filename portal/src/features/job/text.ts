// Text of a log as lines with the offsets of their first bytes.
export interface Line {
  text: string;
  stream: string;
  /** Of its first byte in the log. */
  offset: number;
}

// Terminals colour text with these; a browser shows them as noise.
const ESCAPES = /\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007]*\u0007/g;
const encoder = new TextEncoder();

/** Returns how many bytes a text takes in UTF-8. */
export function utf8Length(text: string): number {
  // eslint-disable-next-line no-control-regex
  return /^[\u0000-\u007f]*$/.test(text) ? text.length : encoder.encode(text).length;
}

/** Returns a line as a terminal would leave it: of a progress bar its last state, without control sequences. */
export function cleaned(text: string): string {
  const last = text.lastIndexOf("\r", text.length - 2);
  return (last >= 0 && !text.endsWith("\r") ? text.slice(last + 1) : text.replaceAll("\r", "")).replace(ESCAPES, "");
}

/** Returns the whole lines of a text that begins at an offset, and what follows the last one. */
export function split(text: string, offset: number, stream: string): { lines: Line[]; rest: { text: string; offset: number } } {
  const parts = text.split("\n");
  const rest = parts.pop() ?? "";
  let at = offset;
  const lines = parts.map((part) => {
    const line = { text: cleaned(part), stream, offset: at };
    at += utf8Length(part) + 1;
    return line;
  });
  return { lines, rest: { text: rest, offset: at } };
}
