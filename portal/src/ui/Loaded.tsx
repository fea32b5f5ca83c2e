// What every page shows while it waits, when it may not, when it fails, and when there is nothing.
import { i18n } from "@lingui/core";
import { Button, Skeleton } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ApiError } from "@/api/client";
import { Icon, type IconName } from "./Icon";
import css from "./Loaded.module.css";

interface NoteProps {
  icon: IconName;
  title: string;
  children?: ReactNode;
  actions?: ReactNode;
  tone?: "plain" | "bad";
}

/** Says why there is nothing to see, and what to do. */
export function Note({ icon, title, children, actions, tone = "plain" }: NoteProps) {
  return (
    <div className={css.note} data-tone={tone} role={tone === "bad" ? "alert" : "status"}>
      <span className={css.icon}><Icon name={icon} size={26} /></span>
      <p className={css.title}>{title}</p>
      {children && <div className={css.text}>{children}</div>}
      {actions && <div className={css.actions}>{actions}</div>}
    </div>
  );
}

/** What the server says, with its commands set off. */
function Said({ text }: { text: string }) {
  return text.split("`").map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part));
}

export function Problem({ error, again }: { error: Error; again?: () => void }) {
  const status = error instanceof ApiError ? error.status : -1;
  const advice = error instanceof ApiError ? error.advice : "";
  const retry = again && <Button variant="default" onClick={again}>{i18n.t("Try again")}</Button>;
  if (status === 403)
    return <Note icon="lock" title={i18n.t("You may not see this")}><Said text={`${error.message}. ${advice}`} /></Note>;
  if (status === 404) return <Note icon="search" title={i18n.t("Not found")}><Said text={`${error.message}. ${advice}`} /></Note>;
  return (
    <Note icon="warn" tone="bad" title={i18n.t("This could not be loaded")} actions={retry}>
      <Said text={`${error.message}. ${advice}`} />
    </Note>
  );
}

interface LoadedProps<T> {
  query: UseQueryResult<T, Error>;
  rows?: number;
  children: (data: T) => ReactNode;
}

/** Shows the data of a query; what was loaded before stays on the page while it is loaded again. */
export function Loaded<T>({ query, rows = 3, children }: LoadedProps<T>) {
  if (query.data !== undefined) return <>{children(query.data)}</>;
  if (query.error) return <Problem error={query.error} again={() => void query.refetch()} />;
  return (
    <div className={css.skeleton} aria-busy="true" aria-label={i18n.t("Loading")} role="status">
      {Array.from({ length: rows }, (_, row) => <Skeleton key={row} height={18} radius="sm" />)}
    </div>
  );
}
