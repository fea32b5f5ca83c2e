// The code that goes along with the job on this page: chosen, read, sent, and named in the file as `extras.code`.
import { useEffect, useRef, useState } from "react";
import { parseDocument } from "yaml";
import { ApiError } from "@/api/client";
import { gather, type Chosen } from "./codeFiles";
import { send, type Sent, type Step } from "./codeSending";

export const CODE = ["extras", "code"];

export interface Going extends Sent {
  /** The name of the directory; "" for files that were dropped together. */
  directory: string;
  files: number;
  bytes: number;
  secrets: readonly string[];
}

export interface CodeState {
  /** What was sent from this page. */
  going?: Going;
  step?: Step;
  /** How far the step is, from 0 to 1. */
  part: number;
  error?: Error;
  choose: (chosen: Chosen | Promise<Chosen>) => void;
  /** Sends what could not be sent again. */
  again?: () => void;
  /** Stops sending, or has the job go without code. */
  remove: () => void;
}

/** Keeps the code of a file that is edited meanwhile: its name is written once the file can be read. */
export function useCode(text: string, setText: (text: string) => void): CodeState {
  const [going, setGoing] = useState<Going>();
  const [step, setStep] = useState<Step>();
  const [part, setPart] = useState(0);
  const [error, setError] = useState<Error>();
  const [unwritten, setUnwritten] = useState("");
  const last = useRef<Chosen | Promise<Chosen>>(undefined);
  const stop = useRef<AbortController>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  useEffect(() => {
    const document = parseDocument(text);
    if (!unwritten || document.errors.length || !document.has("name")) return;
    document.setIn(CODE, unwritten);
    setUnwritten("");
    setText(document.toString({ lineWidth: 0 }));
  }, [text, unwritten]);
  const choose = async (chosen: Chosen | Promise<Chosen>) => {
    stop.current?.abort();
    const own = (stop.current = new AbortController());
    last.current = chosen;
    setError(undefined);
    setGoing(undefined);
    setPart(0);
    setStep("reading");
    try {
      const { name, entries } = await chosen;
      const { files, secrets } = await gather(entries, own.signal);
      const sent = await send(files, { signal: own.signal, onProgress: (now, done) => { setStep(now); setPart(done); } });
      if (own.signal.aborted) return;
      setGoing({ ...sent, directory: name, files: files.length, bytes: files.reduce((sum, { file }) => sum + file.size, 0), secrets });
      setUnwritten(sent.digest);
    } catch (problem) {
      if (own.signal.aborted) return;
      setError(problem instanceof Error ? problem : new Error(String(problem)));
    }
    setStep(undefined);
  };
  const remove = () => {
    stop.current?.abort();
    setStep(undefined);
    setGoing(undefined);
    setError(undefined);
    setUnwritten("");
    const document = parseDocument(text);
    if (document.errors.length || !document.hasIn(CODE)) return;
    document.deleteIn(CODE);
    if (!Object.keys((document.toJS() as { extras?: object }).extras ?? {}).length) document.delete("extras");
    setText(document.toString({ lineWidth: 0 }));
  };
  const isRefused = error instanceof ApiError && error.status === 413;
  return { going, step, part, error, choose: (chosen) => void choose(chosen), again: error && !isRefused && last.current ? () => void choose(last.current!) : undefined, remove };
}
