// Two job files, line by line: what only one of them has is marked by a sign, a word for screen readers, and a colour.
import { i18n } from "@lingui/core";
import { diffLines } from "diff";
import { useMemo } from "react";
import { Loaded, Note } from "@/ui/Loaded";
import css from "./JobPage.module.css";
import { useConfig } from "./queries";

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

export default function Differences({ job, text, other }: { job: string; text: string; other: string }) {
  return <Loaded query={useConfig(other)} rows={12}>{(found) => <Shown job={job} other={other} own={text} found={found} />}</Loaded>;
}

function Shown({ job, other, own, found }: { job: string; other: string; own: string; found: string }) {
  const rows = useMemo(() => rowsOf(own, found), [own, found]);
  const count = rows.filter((row) => row.kind !== "same").length;
  if (!count) return <Note icon="check" title={i18n.t("Both files are the same")} />;
  return (
    <>
      <p className={css.state} role="status">{i18n.t("{count, plural, one {# line differs} other {# lines differ}}: + is only in {job}, − is only in {other}.", { count, job, other })}</p>
      <div className={css.yaml} tabIndex={0} role="region" aria-label={i18n.t("Differences")}>
        {rows.map((row, number) => (
          <div key={number} className={css.differs} data-kind={row.kind}>
            <span aria-hidden="true">{SIGNS[row.kind]} </span>
            {row.kind !== "same" && <span className="hidden">{row.kind === "own" ? job : other}: </span>}
            {row.text || " "}
          </div>
        ))}
      </div>
    </>
  );
}
