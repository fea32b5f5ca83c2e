// The rows of a report, those with most use first: each with a bar of what was used well, borrowed and wasted.
import { i18n } from "@lingui/core";
import { Link } from "@/ui/Link";
import { Table } from "@/ui/Table";
import { hours } from "@/ui/hours";
import type { By, Row } from "./queries";
import css from "./ReportsPage.module.css";

const SHOWN_MAX = 500;

function nameOf(row: Row, by: By): string {
  return { user: row.user, group: row.group, vc: row.virtualCluster, day: row.day }[by] ?? "";
}

/** What a bar is made of: GPU hours, or CPU hours where nobody used a GPU. */
function partsOf(row: Row, isGpu: boolean): { kind: string; value: number; name: string }[] {
  if (!isGpu) return [{ kind: "own", value: row.cpuHours, name: i18n.t("CPU hours") }];
  const wasted = Math.min(row.gpuHoursWasted, row.gpuHours);
  const borrowed = Math.min(row.gpuHoursBorrowed, row.gpuHours - wasted);
  return [
    { kind: "own", value: row.gpuHours - wasted - borrowed, name: i18n.t("used") },
    { kind: "borrowed", value: borrowed, name: i18n.t("borrowed") },
    { kind: "wasted", value: wasted, name: i18n.t("wasted") },
  ];
}

export function UseTable({ rows, by, name }: { rows: readonly Row[]; by: By; name: string }) {
  const isGpu = rows.some((row) => row.gpuHours > 0);
  const whole = (row: Row) => (isGpu ? row.gpuHours : row.cpuHours);
  const sorted = [...rows].sort((one, other) => (by === "day" ? (other.day ?? "").localeCompare(one.day ?? "") : whole(other) - whole(one)));
  const most = Math.max(...rows.map(whole), 0) || 1;
  const heads = [name, i18n.t("Share"), i18n.t("GPU hours"), i18n.t("borrowed"), i18n.t("lent"), i18n.t("idle"), i18n.t("failed"), i18n.t("preempted"), i18n.t("CPU hours"), i18n.t("Runs")];
  return (
    <>
      <ul className={css.key} aria-hidden="true">
        {isGpu && <><li><i data-kind="own" />{i18n.t("used")}</li><li><i data-kind="borrowed" />{i18n.t("borrowed")}</li><li><i data-kind="wasted" />{i18n.t("wasted")}</li></>}
      </ul>
      <Table label={i18n.t("Who used it")} heads={heads}>
        {sorted.slice(0, SHOWN_MAX).map((row) => (
          <tr key={nameOf(row, by)}>
            <th scope="row" className={css.name}><Name row={row} by={by} /></th>
            <td className={css.barCell}><Bar row={row} isGpu={isGpu} most={most} /></td>
            <td><strong>{hours(row.gpuHours)}</strong></td><td>{hours(row.gpuHoursBorrowed)}</td><td>{hours(row.gpuHoursLent)}</td>
            <td>{hours(row.gpuHoursIdle)}</td><td>{hours(row.gpuHoursFailed)}</td><td>{hours(row.gpuHoursPreempted)}</td>
            <td>{hours(row.cpuHours)}</td><td>{row.taskAttempts.toLocaleString(i18n.locale)}</td>
          </tr>
        ))}
      </Table>
      {sorted.length > SHOWN_MAX && <p className={css.more}>{i18n.t("The first {count} are shown; the CSV has all.", { count: SHOWN_MAX })}</p>}
    </>
  );
}

function Name({ row, by }: { row: Row; by: By }) {
  const name = nameOf(row, by);
  if (!name) return <span className={css.dim}>{i18n.t("none")}</span>;
  if (by === "user") return <Link to="/jobs" query={{ user: name }}>{name}</Link>;
  return by === "vc" ? <Link to="/jobs" query={{ vc: name }}>{name}</Link> : <>{name}</>;
}

function Bar({ row, isGpu, most }: { row: Row; isGpu: boolean; most: number }) {
  const parts = partsOf(row, isGpu).filter((part) => part.value > 0);
  return (
    <span className={css.bar} role="img" aria-label={parts.map((part) => `${hours(part.value)} ${part.name}`).join(", ") || "0"}>
      {parts.map((part) => <i key={part.kind} data-kind={part.kind} style={{ width: `${(100 * part.value) / most}%` }} />)}
    </span>
  );
}
