// Two replays side by side: what differs is marked as better or worse, in words, too.
import { i18n } from "@lingui/core";
import type { Schemas } from "@/api/client";
import { Table } from "@/ui/Table";
import { span } from "@/ui/time";
import css from "./WhatIfPage.module.css";

type Replayed = Schemas["Replayed"];
type Vc = Schemas["ReplayedVc"];
type Figure = "gpus" | "waitMeanSeconds" | "waitP95Seconds" | "gpusUsed" | "jobsWaiting" | "gpusStranded" | "preemptions" | "gpuHoursLost";

const number = (value: number) => value.toLocaleString(i18n.locale, { maximumFractionDigits: 1 });
const time = (value: number) => span(value * 1_000);

/** The figures of the table; `good` says whether less or more of it is better. */
function figures(): { key: Figure; name: string; shown: (value: number) => string; good: "less" | "more" | "" }[] {
  return [
    { key: "gpus", name: i18n.t("Promised GPUs"), shown: number, good: "" },
    { key: "waitMeanSeconds", name: i18n.t("Mean wait"), shown: time, good: "less" },
    { key: "waitP95Seconds", name: i18n.t("19 of 20 wait less than"), shown: time, good: "less" },
    { key: "gpusUsed", name: i18n.t("GPUs in use"), shown: number, good: "more" },
    { key: "jobsWaiting", name: i18n.t("Jobs that wait"), shown: number, good: "less" },
    { key: "gpusStranded", name: i18n.t("Free GPUs while jobs wait"), shown: number, good: "less" },
    { key: "preemptions", name: i18n.t("Preemptions"), shown: number, good: "less" },
    { key: "gpuHoursLost", name: i18n.t("GPU hours done again"), shown: number, good: "less" },
  ];
}

export function Compared({ now, then }: { now: Replayed; then: Replayed }) {
  const after = new Map(then.virtualClusters.map((vc) => [vc.name, vc]));
  const rows: [string, Vc, Vc | undefined][] = [
    ...now.virtualClusters.map((vc): [string, Vc, Vc | undefined] => [vc.name, vc, after.get(vc.name)]),
    [i18n.t("all together"), now.total, then.total],
  ];
  const columns = figures();
  return (
    <Table label={i18n.t("Before and after")} heads={[i18n.t("Virtual cluster"), ...columns.map((one) => one.name)]}>
      {rows.map(([name, before, one]) => (
        <tr key={name}>
          <th scope="row" className={css.name}>{name}</th>
          {columns.map(({ key, shown, good }) => <td key={key}>{one ? <Pair before={before[key]} after={one[key]} shown={shown} good={good} /> : shown(before[key])}</td>)}
        </tr>
      ))}
    </Table>
  );
}

function Pair({ before, after, shown, good }: { before: number; after: number; shown: (value: number) => string; good: "less" | "more" | "" }) {
  if (shown(before) === shown(after)) return <>{shown(after)}</>;
  const isBetter = good === "less" ? after < before : after > before;
  const word = good ? (isBetter ? i18n.t("better") : i18n.t("worse")) : "";
  return (
    <span className={css.pair}>
      <span className={css.before}>{shown(before)}</span> <span aria-hidden="true">→</span> <strong data-tone={good ? (isBetter ? "good" : "bad") : undefined}>{shown(after)}</strong>
      {word && <small>{word}</small>}
    </span>
  );
}
