// Copies text; "copy as command" gives the same as a line for the terminal.
import { i18n } from "@lingui/core";
import { ActionIcon, Button } from "@mantine/core";
import { useState } from "react";
import { Icon } from "./Icon";

/** Puts text on the clipboard, also where the page came over plain HTTP from another machine. */
export async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** Returns a word as a shell reads it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./~-]+$/.test(word) && !word.startsWith("~") ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

export function command(...words: string[]): string {
  return ["pai", ...words].map(quoted).join(" ");
}

interface CopyCommandProps {
  words: string[];
  /** Only the icon, for the rows of a table. */
  isSmall?: boolean;
}

export function CopyCommand({ words, isSmall = false }: CopyCommandProps) {
  const [done, setDone] = useState(false);
  const text = command(...words);
  if (isSmall) {
    return (
      <ActionIcon variant="default" size={26} title={text} aria-label={done ? i18n.t("Copied") : i18n.t("Copy as command")} onClick={() => void copy(text).then(() => setDone(true))} onBlur={() => setDone(false)}>
        <Icon name={done ? "check" : "terminal"} size={14} />
      </ActionIcon>
    );
  }
  return (
    <Button
      variant="default"
      size="xs"
      leftSection={<Icon name={done ? "check" : "terminal"} size={15} />}
      title={text}
      onClick={async () => {
        await copy(text);
        setDone(true);
        setTimeout(() => setDone(false), 1_500);
      }}
    >
      <span aria-live="polite">{done ? i18n.t("Copied") : i18n.t("Copy as command")}</span>
    </Button>
  );
}
