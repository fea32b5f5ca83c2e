// A table of up to some hundred rows; it scrolls by itself where the window is narrow.
import type { ReactNode } from "react";
import css from "./Table.module.css";

interface TableProps {
  label: string;
  /** Names of the columns; "" for a column of buttons. */
  heads: readonly string[];
  children: ReactNode;
}

export function Table({ label, heads, children }: TableProps) {
  return (
    <div className={css.box} role="region" aria-label={label} tabIndex={0}>
      <table className={css.table} aria-label={label}>
        <thead><tr>{heads.map((head, column) => (head ? <th key={head} scope="col">{head}</th> : <td key={column} />))}</tr></thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
