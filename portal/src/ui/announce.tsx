// What screen readers say although it appears in no notice: a page that opened, a state that changed, new lines of a log.
import { useSyncExternalStore } from "react";
import css from "./announce.module.css";

interface Said {
  id: number;
  text: string;
}

/** What was said stays a while only: whoever reads the page line by line should not meet it. */
const STAYS_MS = 10_000;

let all: readonly Said[] = [];
let last = 0;
let page = "";
const listeners = new Set<() => void>();

function set(changed: readonly Said[]): void {
  all = changed;
  for (const each of listeners) each();
}

/** Has screen readers say a text once they have finished what they say now. */
export function announce(text: string): void {
  last += 1;
  const one = { id: last, text };
  set([...all, one]);
  setTimeout(() => set(all.filter((other) => other !== one)), STAYS_MS);
}

/** Says which page opened; of the first one the browser itself says the title. */
export function announcePage(title: string): void {
  if (page && page !== title) announce(title);
  page = title;
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** The one place of the page that announces: it must be there before its first text is. */
export function Announcer() {
  const said = useSyncExternalStore(subscribe, () => all);
  return <div className={css.hidden} aria-live="polite">{said.map((one) => <p key={one.id}>{one.text}</p>)}</div>;
}
