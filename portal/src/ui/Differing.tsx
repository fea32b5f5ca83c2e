// Two texts, line by line: what only one of them has is marked by a sign, a word for screen readers, and a colour.
import { i18n } from "@lingui/core";
import { diffLines } from "diff";
import { useMemo } from "react";
import css from "./Differing.module.css";
import { Note } from "./Loaded";

export interface Row {
  kind: "same" | "own" | "other";
  text: string;
}

/** Returns the lines of both files; of a file against itself, all are the same. */
export function rowsOf(own: string, other: string): Row[] {
  return diffLines(other, own).flatMap((part) =>
    part.value.replace(/\n$/, "").split("\n").map((text): Row => ({ kind: part.added ? "own" : part.removed ? "other" : "same", text })));
}

const SIGNS = { same: " ", own: "+", other: "−" };

interface DifferingProps {
  /** What the texts are called. */
  names: { own: string; other: string };
  own: string;
  other: string;
}

export default function Differing({ names, own, other }: DifferingProps) {
  const rows = useMemo(() => rowsOf(own, other), [own, other]);
  const count = rows.filter((row) => row.kind !== "same").length;
  if (!count) return <Note icon="check" title={i18n.t("Both files are the same")} />;
  return (
    <>
      <p className={css.count} role="status">{i18n.t("{count, plural, one {# line differs} other {# lines differ}}: + is only in {job}, − is only in {other}.", { count, job: names.own, other: names.other })}</p>
      <div className={css.lines} tabIndex={0} role="region" aria-label={i18n.t("Differences")}>
        {rows.map((row, number) => (
          <div key={number} className={css.line} data-kind={row.kind}>
            <span aria-hidden="true">{SIGNS[row.kind]} </span>
            {row.kind !== "same" && <span className="hidden">{names[row.kind]}: </span>}
            {row.text || " "}
          </div>
        ))}
      </div>
    </>
  );
}
