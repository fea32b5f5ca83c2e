// Sends the files of a directory: their list, whose SHA-256 names the code, and the contents that the server lacks.
import { missingCode, sendCode } from "@/api/code";
import { sha256 } from "@/api/random";
import type { CodeFile } from "./codeFiles";

export interface Sent {
  digest: string;
  /** What was sent: the server had the other contents. */
  newFiles: number;
  newBytes: number;
}

export type Step = "reading" | "sending";

interface Options {
  onProgress: (step: Step, part: number) => void;
  signal: AbortSignal;
}

/** Sends files; throws ApiError for what the server refuses, and an Error for a file that changed meanwhile. */
export async function send(files: readonly CodeFile[], { onProgress, signal }: Options): Promise<Sent> {
  const total = files.reduce((sum, { file }) => sum + file.size, 0) || 1;
  const contents = new Map<string, File>();
  const rows: [name: string, hash: string, size: number, isExecutable: boolean][] = [];
  let read = 0;
  for (const { name, file } of files) {
    let first: Uint8Array | undefined;
    const parts = async function* () {
      for await (const part of piecesOf(file)) {
        signal.throwIfAborted();
        first ??= part;
        read += part.length;
        onProgress("reading", read / total);
        yield part;
      }
    };
    const hash = hex(await sha256(parts()));
    contents.set(hash, file);
    // Browsers do not say which files may be executed; scripts say it themselves, and so do programs.
    rows.push([name, hash, file.size, isProgram(first)]);
  }
  const list = new TextEncoder().encode(JSON.stringify({ version: 1, files: rows }));
  const digest = hex(await sha256([list]));
  const missing = await missingCode([...contents.keys()], signal);
  const sent = [...contents].filter(([hash]) => missing.has(hash));
  const plain = new Blob([`${digest} ${list.length}\n`, list, ...sent.flatMap(([hash, file]) => [`${hash} ${file.size}\n`, file])]);
  const packed = await new Response(plain.stream().pipeThrough(new CompressionStream("gzip"), { signal })).blob();
  await sendCode(digest, packed, (part) => onProgress("sending", part), signal);
  return { digest, newFiles: sent.length, newBytes: sent.reduce((sum, [, file]) => sum + file.size, 0) };
}

async function* piecesOf(file: File): AsyncGenerator<Uint8Array> {
  const reader = file.stream().getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

const SCRIPT = [0x23, 0x21];
const ELF = [0x7f, 0x45, 0x4c, 0x46];

/** Returns whether a file begins as a script (`#!`) or a program of Linux does. */
export function isProgram(first: Uint8Array | undefined): boolean {
  return [SCRIPT, ELF].some((mark) => mark.every((byte, index) => first?.[index] === byte));
}

function hex(bytes: Uint8Array): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
