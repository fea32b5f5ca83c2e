// The frame of each page: its title, its actions, and cards.
import { useDocumentTitle } from "@mantine/hooks";
import { useEffect, type ReactNode } from "react";
import { announcePage } from "./announce";
import css from "./Page.module.css";

interface PageProps {
  title: string;
  heading?: ReactNode;
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  wide?: boolean;
}

export function Page({ title, heading, lead, actions, children, wide }: PageProps) {
  useDocumentTitle(`${title} · OpenPAI`);
  useEffect(() => announcePage(title), [title]);
  return (
    <div className={css.page} data-wide={wide || undefined}>
      <header className={css.head}>
        <div className={css.titles}>
          <h1 className={css.title}>{heading ?? title}</h1>
          {lead && <div className={css.lead}>{lead}</div>}
        </div>
        {actions && <div className={css.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface CardProps {
  title?: ReactNode;
  aside?: ReactNode;
  children: ReactNode;
  flush?: boolean;
}

export function Card({ title, aside, children, flush }: CardProps) {
  return (
    <section className={css.card}>
      {(title || aside) && (
        <div className={css.cardHead}>
          <h2 className={css.cardTitle}>{title}</h2>
          {aside}
        </div>
      )}
      <div className={flush ? undefined : css.cardBody}>{children}</div>
    </section>
  );
}

/** Shows a word beside its value. */
export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className={css.fact}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

export function Facts({ children }: { children: ReactNode }) {
  return <dl className={css.facts}>{children}</dl>;
}
