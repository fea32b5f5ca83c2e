// The files of a directory that was chosen or dropped: those that go along with a job, without those that stay here.
import { i18n } from "@lingui/core";
import { ApiError } from "@/api/client";
import lists from "@/api/codeRules.json";
import { Rules } from "./codeRules";

/** A file or a directory, before anything of it was read. */
export interface Entry {
  name: string;
  file?: () => Promise<File>;
  list?: () => Promise<readonly Entry[]>;
}

export interface CodeFile {
  name: string;
  file: File;
}

/** A directory as a user gave it. */
export interface Chosen {
  name: string;
  entries: readonly Entry[];
}

export interface Gathered {
  files: readonly CodeFile[];
  /** Files and directories that stay here only since their names are those of secrets. */
  secrets: readonly string[];
}

const RULES_BYTES_MAX = 1 << 20;
const LARGEST_SHOWN = 3;
const MIB = 1 << 20;

/** Returns what `<input webkitdirectory>` gave as a directory. */
export function ofInput(files: Iterable<File>): Chosen {
  const top = new Map<string, Entry | Map<string, unknown>>();
  let name = "";
  for (const file of files) {
    const [first = "", ...parts] = (file.webkitRelativePath || `/${file.name}`).split("/");
    name ||= first;
    const last = parts.pop() ?? file.name;
    let at = top;
    for (const part of parts) {
      const below = at.get(part);
      const next = below instanceof Map ? below : new Map<string, unknown>();
      at.set(part, next);
      at = next as typeof top;
    }
    at.set(last, { name: last, file: () => Promise.resolve(file) });
  }
  return { name, entries: entriesOf(top) };
}

function entriesOf(held: Map<string, unknown>): Entry[] {
  return [...held].map(([name, one]) => (one instanceof Map ? { name, list: () => Promise.resolve(entriesOf(one)) } : (one as Entry)));
}

/** Returns what was dropped: one directory, or several things as if they were in one. */
export async function ofDrop(items: Iterable<DataTransferItem>): Promise<Chosen> {
  // The list is empty once this turn of the page is over.
  const dropped = [...items].map((item) => item.webkitGetAsEntry()).filter((one) => one !== null).map(dropEntry);
  const [only] = dropped;
  if (dropped.length === 1 && only?.list) return { name: only.name, entries: await only.list() };
  return { name: only && dropped.length === 1 ? only.name : "", entries: dropped };
}

function dropEntry(entry: FileSystemEntry): Entry {
  if (entry.isFile) return { name: entry.name, file: () => new Promise((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject)) };
  return { name: entry.name, list: () => listed((entry as FileSystemDirectoryEntry).createReader()) };
}

async function listed(reader: FileSystemDirectoryReader): Promise<Entry[]> {
  const all: Entry[] = [];
  // A reader gives some entries at a time, and none at the end.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return all;
    all.push(...some.map(dropEntry));
  }
}

/** Returns the files that go along; throws ApiError beyond the limits. */
export async function gather(entries: readonly Entry[], signal: AbortSignal): Promise<Gathered> {
  const files: CodeFile[] = [];
  const secrets: string[] = [];
  let bytes = 0;
  const ahead = [{ entries, base: "", above: Rules.first() }];
  for (let next = ahead.pop(); next; next = ahead.pop()) {
    signal.throwIfAborted();
    const { base, above } = next;
    const rules = above.below(base, await linesOf(next.entries));
    for (const entry of next.entries) {
      const name = `${base}${entry.name}${entry.list ? "/" : ""}`;
      const stays = rules.about(name);
      if (stays === "secret") secrets.push(name);
      if (stays !== "kept") continue;
      const below = await entry.list?.();
      // A virtual environment of any name works nowhere else.
      if (below && !below.some((one) => one.name === "pyvenv.cfg")) ahead.push({ entries: below, base: name, above: rules });
      if (!entry.file) continue;
      const file = await entry.file();
      files.push({ name, file });
      bytes += file.size;
      if (files.length > lists.filesMax || bytes > lists.bytesMax) throw tooLarge(files);
    }
  }
  return { files: files.sort((one, other) => (one.name < other.name ? -1 : 1)), secrets: secrets.sort() };
}

async function linesOf(entries: readonly Entry[]): Promise<string[]> {
  const found = await Promise.all(lists.ruleFiles.map((name) => entries.find((entry) => entry.name === name)?.file?.()));
  const texts = await Promise.all(found.map((file) => file?.slice(0, RULES_BYTES_MAX).text() ?? ""));
  return texts.flatMap((text) => text.split(/\r?\n/));
}

function tooLarge(files: readonly CodeFile[]): ApiError {
  const largest = files.toSorted((one, other) => other.file.size - one.file.size).slice(0, LARGEST_SHOWN);
  const shown = largest.filter(({ file }) => file.size >= MIB).map(({ name, file }) => `${name} (${Math.floor(file.size / MIB)} MiB)`).join(", ");
  const message = i18n.t("The directory holds more than {files} files or {size} MiB", { files: i18n.number(lists.filesMax), size: lists.bytesMax / MIB });
  return new ApiError(413, {
    code: "RequestTooLargeError",
    message: shown ? `${message}${i18n.t("; the largest: {largest}", { largest: shown })}` : message,
    advice: i18n.t("Name what the job does not need in .paiignore, and put data into a storage."),
  });
}
