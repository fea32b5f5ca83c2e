// What a job used from its start on: all of it, or one of its tasks.
import { i18n } from "@lingui/core";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Loaded, Note } from "@/ui/Loaded";
import { hasValues, MetricChart } from "@/ui/MetricChart";
import css from "./JobPage.module.css";
import { Efficiency } from "./Efficiency";
import { apart } from "./Progress";
import { type Task, useJobMetrics } from "./queries";

export function Use({ job, name, tasks, isOver }: { job: string; name: string; tasks: readonly Task[]; isOver: boolean }) {
  const [query, change] = useAddress();
  const task = query["of"] ?? "";
  const charts = useJobMetrics(job, task, isOver);
  const [role = "", index = ""] = task.split("/");
  return (
    <>
      <div className={css.bar}>
        <select className={css.select} aria-label={i18n.t("Use of")} value={task} onChange={(event) => change({ of: event.target.value })}>
          <option value="">{i18n.t("the whole job")}</option>
          {tasks.slice(0, 2_000).map((one) => <option key={`${one.role}/${one.taskIndex}`} value={`${one.role}/${one.taskIndex}`}>{one.role}-{one.taskIndex}</option>)}
        </select>
        <CopyCommand words={["job", "metrics", name, ...(task ? ["--role", role, "--index", index, "--metric", "task_cpu_percent,task_mem_usage_byte"] : [])]} />
      </div>
      {!task && <div className={css.section}><Efficiency job={job} name={name} isOver={isOver} /></div>}
      <Loaded query={charts} rows={8}>
        {(found) => {
          const shown = found.filter((one) => hasValues(one) && one.name !== "pai_job_progress_value");
          const values = found.find((one) => hasValues(one) && one.name === "pai_job_progress_value");
          if (!shown.length)
            return <Note icon="clock" title={i18n.t("Nothing measured yet")}>{isOver ? i18n.t("It ended before anything was measured, or its backend measures no tasks.") : i18n.t("Tasks are measured every ten seconds, from their start on.")}</Note>;
          return <div className={css.charts}>{shown.map((metric) => <MetricChart key={metric.name} metric={metric} />)}{values && apart(values).map((one) => <MetricChart key={one.name} metric={one.metric} name={one.name} />)}</div>;
        }}
      </Loaded>
    </>
  );
}
