// Names as they are: what would hide or turn letters around is shown by its number.

/** Control characters, marks without width, and marks that change the direction of text. */
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Returns a name in which nothing is hidden: `‹U+202E›gpj.exe` instead of `exe.jpg`. */
export function visible(name: string): string {
  return name.replace(HIDDEN, (mark) => `‹U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}
