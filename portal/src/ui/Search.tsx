// A field whose words are in the address, a moment after they were typed.
import { i18n } from "@lingui/core";
import { CloseButton, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useState } from "react";
import type { Query } from "./address";
import { Icon } from "./Icon";

interface SearchProps {
  label: string;
  className?: string;
  size?: string;
  query: Query;
  change: (change: Query) => void;
}

export function Search({ label, className, size, query, change }: SearchProps) {
  const [typed, setTyped] = useState(query["q"] ?? "");
  const send = useDebouncedCallback((q: string) => change({ q }), 200);
  useEffect(() => setTyped(query["q"] ?? ""), [query["q"]]);
  const set = (text: string) => {
    setTyped(text);
    send(text.trim());
  };
  return (
    <TextInput className={className} size={size} leftSection={<Icon name="search" size={15} />} aria-label={label} placeholder={label} value={typed} maxLength={200}
      onChange={(event) => set(event.target.value)} rightSection={typed && <CloseButton size="xs" aria-label={i18n.t("Remove")} onClick={() => set("")} />} />
  );
}
