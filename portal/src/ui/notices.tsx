// Short messages about what was just done; a screen reader reads them out.
import { i18n } from "@lingui/core";
import { CloseButton } from "@mantine/core";
import { useEffect, useSyncExternalStore } from "react";
import { ApiError } from "@/api/client";
import css from "./notices.module.css";

interface Notice {
  id: number;
  text: string;
  tone: "good" | "bad";
}

let notices: readonly Notice[] = [];
let last = 0;
const listeners = new Set<() => void>();

function set(changed: readonly Notice[]): void {
  notices = changed;
  for (const each of listeners) each();
}

export function notify(text: string, tone: Notice["tone"] = "good"): void {
  last += 1;
  set([...notices.slice(-3), { id: last, text, tone }]);
}

export function notifyError(error: unknown): void {
  const advice = error instanceof ApiError && error.advice ? `; ${error.advice}` : "";
  notify(`${error instanceof Error ? error.message : String(error)}${advice}`, "bad");
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function Notices() {
  const shown = useSyncExternalStore(subscribe, () => notices);
  return (
    <div className={css.notices} role="status" aria-live="polite">
      {shown.map((notice) => <One key={notice.id} notice={notice} />)}
    </div>
  );
}

function One({ notice }: { notice: Notice }) {
  const close = () => set(notices.filter((one) => one !== notice));
  useEffect(() => {
    const timer = setTimeout(close, notice.tone === "bad" ? 12_000 : 4_000);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div className={css.notice} data-tone={notice.tone}>
      <span>{notice.text}</span>
      <CloseButton size="sm" onClick={close} aria-label={i18n.t("Close")} />
    </div>
  );
}
