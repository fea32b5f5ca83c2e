// How much of what it asked for a job used, and what to ask for instead; the advice is the server's.
import { i18n } from "@lingui/core";
import type { Schemas } from "@/api/client";
import { amount } from "@/ui/amount";
import { CopyCommand } from "@/ui/Copy";
import { Card } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { span } from "@/ui/time";
import css from "./JobPage.module.css";
import { useEfficiency } from "./queries";

type Resource = Schemas["ResourceEfficiency"];
type Role = Schemas["RoleEfficiency"];

/** Shows nothing where nothing was measured; `brief` is only the advice. */
export function Efficiency({ job, name, isOver, brief }: { job: string; name: string; isOver: boolean; brief?: boolean }) {
  const found = useEfficiency(job, isOver).data;
  if (!found?.measuredSeconds) return null;
  const advice = found.taskRoles.flatMap((role) => role.advice.map((text) => (found.taskRoles.length > 1 ? `${role.name}: ${text}` : text)));
  if (brief && !advice.length) return null;
  const title = isOver ? i18n.t("What it asked for and what it used") : i18n.t("What it asked for and what it used so far");
  if (brief)
    return (
      <section className={css.box} data-tone="advice" aria-label={i18n.t("Advice")}>
        <h2>{i18n.t("Next time, it can do with less")}</h2>
        <ul className={css.small}>{advice.map((text) => <li key={text}>{text}</li>)}</ul>
      </section>
    );
  return (
    <Card title={title} aside={<CopyCommand words={["job", "efficiency", name]} />}>
      {advice.length > 0 && <ul className={css.advice}>{advice.map((text) => <li key={text}>{text}</li>)}</ul>}
      {found.noAdvice && <p className={css.state}>{found.noAdvice}</p>}
      <Table label={title} heads={[i18n.t("Task role"), i18n.t("Resource"), i18n.t("Asked for"), i18n.t("Mean"), i18n.t("Most"), i18n.t("Used")]}>
        {found.taskRoles.flatMap((role) => rowsOf(role).map(([resource, used, asked, shown]) => (
          <tr key={`${role.name} ${resource}`}>
            <td>{role.name}</td><td>{resource}</td><td>{asked}</td>
            <td>{used.mean === null ? "–" : shown(used.mean)}</td><td>{used.most === null ? "–" : shown(used.most)}</td>
            <td>{used.share === null ? "–" : <Share part={used.share} />}</td>
          </tr>
        )))}
      </Table>
      <p className={css.state}>{i18n.t("Of one task, or of one GPU; measured for {time}.", { time: span(found.measuredSeconds * 1_000) })}</p>
    </Card>
  );
}

function rowsOf(role: Role): [string, Resource, string, (value: number) => string][] {
  const plain = (value: number) => amount(value, "");
  const bytes = (value: number) => amount(value, "bytes");
  const percent = (value: number) => amount(value, "percent");
  const gpus = i18n.t("{count, plural, one {# GPU} other {# GPUs}}", { count: role.gpus });
  return [
    [i18n.t("CPUs"), role.cpu, plain(role.cpu.asked), plain],
    [i18n.t("memory"), role.memoryBytes, bytes(role.memoryBytes.asked), bytes],
    ...(role.gpus ? [[i18n.t("GPUs, how busy"), role.gpuPercent, gpus, percent], [i18n.t("memory of the GPUs"), role.gpuMemoryPercent, gpus, percent]] as [string, Resource, string, (value: number) => string][] : []),
  ];
}

function Share({ part }: { part: number }) {
  const percent = Math.round(100 * part);
  return <span className={css.share}><i data-low={part < 0.3 || undefined} style={{ width: `${Math.min(percent, 100)}%` }} /><b>{percent} %</b></span>;
}
