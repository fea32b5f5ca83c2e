// What a job reports of its training, beside its log: its steps, its loss, and whatever else it names.
import { i18n } from "@lingui/core";
import { hasValues, MetricChart, type Metric } from "@/ui/MetricChart";
import css from "./JobPage.module.css";
import { useJobMetrics } from "./queries";

/** Returns a chart for each value that a job reports: loss and accuracy share no axis. */
export function apart(metric: Metric): { name: string; metric: Metric }[] {
  const names = [...new Set(metric.series.map((one) => one.labels["metric"] ?? ""))].sort();
  return names.map((name) => {
    const series = metric.series.filter((one) => (one.labels["metric"] ?? "") === name);
    return { name, metric: { ...metric, series, matched: series.length } };
  });
}

/** Shows nothing for a job that reports nothing. */
export function Progress({ job, isOver }: { job: string; isOver: boolean }) {
  const charts = useJobMetrics(job, "", isOver).data?.filter(hasValues) ?? [];
  const steps = charts.find((one) => one.name === "pai_job_progress_steps");
  const values = charts.find((one) => one.name === "pai_job_progress_value");
  if (!steps && !values) return null;
  return (
    <section className={css.progress} aria-label={i18n.t("Progress")}>
      {values && apart(values).map((one) => <MetricChart key={one.name} metric={one.metric} name={one.name} />)}
      {steps && <MetricChart metric={steps} />}
    </section>
  );
}
