// A metric as the server answers it, as a chart.
import { i18n } from "@lingui/core";
import { useMemo } from "react";
import type { Schemas } from "@/api/client";
import { later } from "@/api/parts";
import { Card } from "./Page";
import { Part } from "./Part";

const Chart = later(() => import("./Chart"));

export type Metric = Schemas["MetricChart"];
type Series = Metric["series"][number];

/** Names of metrics in the language of the page; others have the server's words. */
function titleOf(metric: Metric): string {
  const titles: Record<string, string> = {
    pai_job_cpus_used: i18n.t("Processors in use"),
    pai_job_memory_used_bytes: i18n.t("Memory in use"),
    pai_job_gpu_percent: i18n.t("GPUs, how busy"),
    pai_job_progress_steps: i18n.t("Progress in steps"),
    pai_job_progress_value: i18n.t("Reported by the job"),
    task_cpu_percent: i18n.t("Processor use; 100 % is one processor"),
    task_mem_usage_byte: i18n.t("Memory in use"),
    task_gpu_percent: i18n.t("GPUs, how busy"),
    task_gpu_mem_percent: i18n.t("GPU memory in use"),
    task_net_in_byte: i18n.t("Received over the network"),
    task_net_out_byte: i18n.t("Sent over the network"),
    task_block_in_byte: i18n.t("Read from disks"),
    task_block_out_byte: i18n.t("Written to disks"),
    pai_vc_gpus_used: i18n.t("GPUs in use by virtual cluster"),
    pai_vc_cpus_used: i18n.t("CPUs in use by virtual cluster"),
    pai_queue_jobs: i18n.t("Waiting jobs by virtual cluster"),
    pai_queue_oldest_seconds: i18n.t("Longest wait by virtual cluster"),
    pai_node_cpu_percent: i18n.t("Processors of nodes, how busy"),
    pai_node_memory_used_bytes: i18n.t("Memory of nodes in use"),
    pai_node_disk_used_bytes: i18n.t("Disks of nodes in use"),
    pai_loop_lag_seconds: i18n.t("Longest delay of the server"),
    pai_turn_seconds_total: i18n.t("Time for decisions, per second"),
    pai_api_requests_total: i18n.t("Requests per second"),
  };
  return titles[metric.name] ?? metric.help;
}

/** Returns the values of the labels that tell the series of one chart from each other. */
export function namesOf(series: readonly Series[]): string[] {
  const keys = new Set(series.flatMap((one) => Object.keys(one.labels)));
  const telling = [...keys].filter((key) => new Set(series.map((one) => one.labels[key])).size > 1);
  const own = (one: Series) => {
    const { role_name: role, task_index: index, ...rest } = one.labels as Record<string, string>;
    const task = telling.includes("role_name") || telling.includes("task_index") ? [`${role ?? ""}-${index ?? ""}`] : [];
    return [...task, ...telling.filter((key) => key in rest).map((key) => rest[key] ?? "")].join(" ");
  };
  const names = series.map(own);
  return names.map((name, index) => name || (names.length > 1 ? String(index + 1) : i18n.t("all")));
}

/** Shows a metric as a chart in a card; nothing where nothing was measured. */
export function MetricChart({ metric, name }: { metric: Metric; name?: string }) {
  const lines = useMemo(() => {
    const names = namesOf(metric.series);
    return metric.series.map((one, index) => ({ name: names[index] ?? "", values: one.mean }));
  }, [metric]);
  const title = name ?? titleOf(metric);
  const more = metric.matched - metric.series.length;
  return (
    <Card title={title}>
      <Part>
        <Chart label={title} unit={metric.unit} startMs={metric.start} stepMs={metric.step} lines={lines} />
      </Part>
      {more > 0 && <p>{i18n.t("{more} more are not shown.", { more })}</p>}
    </Card>
  );
}

/** Whether anything was measured in the time of a chart. */
export function hasValues(metric: Metric): boolean {
  return metric.series.some((one) => one.mean.some((value) => value !== null));
}
