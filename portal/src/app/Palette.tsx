// The command palette: pages, and jobs that the server finds for the typed words.
import { i18n } from "@lingui/core";
import { Modal } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState, type KeyboardEvent } from "react";
import { answer, http, type Schemas } from "@/api/client";
import { usePluginPages } from "@/api/pluginPages";
import { useMe } from "@/api/session";
import { Icon } from "@/ui/Icon";
import { StateIcon } from "@/ui/State";
import css from "./Palette.module.css";
import { listed, pluggedIn } from "./pages";

interface Found {
  key: string;
  icon: React.ReactNode;
  text: string;
  more: string;
  to: string;
}

function useFound(typed: string): Found[] {
  const me = useMe().data;
  const [word] = useDebouncedValue(typed.trim(), 150);
  const jobs = useQuery({
    queryKey: ["palette", word],
    queryFn: () => answer(http.GET("/api/v2/jobs", { params: { query: { keyword: word, limit: 8 } } })),
    enabled: word.length > 1,
  });
  const lower = typed.trim().toLowerCase();
  const all = [...listed(Boolean(me?.admin)), ...pluggedIn(usePluginPages().data)];
  const pages = all.filter((page) => page.name().toLowerCase().includes(lower));
  const rows = (word.length > 1 ? (jobs.data as Schemas["JobSummary"][] | undefined) : undefined) ?? [];
  return [
    ...pages.map((page) => ({ key: page.path, icon: <Icon name={page.icon} />, text: page.name(), more: "", to: page.path })),
    ...rows.map((job) => ({
      key: job.debugId,
      icon: <StateIcon state={job.state} />,
      text: job.name,
      more: `${job.username} · ${job.virtualCluster}`,
      to: `/jobs/${job.username}~${job.name}`,
    })),
  ];
}

export function Palette({ onClose }: { onClose: () => void }) {
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const navigate = useNavigate();
  const found = useFound(typed);
  const at = Math.min(chosen, Math.max(found.length - 1, 0));
  const go = (to: string) => {
    onClose();
    void navigate({ to } as never);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setChosen(Math.min(at + 1, found.length - 1));
    else if (event.key === "ArrowUp") setChosen(Math.max(at - 1, 0));
    else if (event.key === "Enter" && found[at]) go(found[at].to);
    else return;
    event.preventDefault();
  };
  return (
    <Modal opened onClose={onClose} withCloseButton={false} padding={0} size={560} yOffset="12vh" attributes={{ content: { "aria-label": i18n.t("Find a job or a page") } }}>
      <div className={css.field}>
        <Icon name="search" />
        <input data-autofocus role="combobox" aria-expanded aria-controls="palette" aria-activedescendant={found[at] ? `palette-${at}` : undefined}
          aria-label={i18n.t("Find a job or a page")} placeholder={i18n.t("Find a job or a page")} value={typed}
          onChange={(event) => { setTyped(event.target.value); setChosen(0); }} onKeyDown={onKeyDown} />
      </div>
      <ul id="palette" role="listbox" aria-label={i18n.t("Results")} className={css.list}>
        {found.map((one, index) => (
          <li key={one.key} id={`palette-${index}`} role="option" aria-selected={index === at} className={css.item}
            onMouseMove={() => setChosen(index)} onClick={() => go(one.to)} onKeyDown={undefined}>
            {one.icon}
            <span>{one.text}</span>
            <small>{one.more}</small>
          </li>
        ))}
      </ul>
      {!found.length && <p className={css.none}>{i18n.t("Nothing is called that.")}</p>}
    </Modal>
  );
}
