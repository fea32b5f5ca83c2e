// Use of the cluster and the health of the platform over time, for administrators.
import { i18n } from "@lingui/core";
import { SegmentedControl } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import { SLOW_MS } from "@/api/queries";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Loaded, Note } from "@/ui/Loaded";
import { hasValues, MetricChart } from "@/ui/MetricChart";
import { Page } from "@/ui/Page";
import { Health } from "./Health";
import css from "./MetricsPage.module.css";

const METRICS = ["pai_vc_gpus_used", "pai_vc_cpus_used", "pai_queue_jobs", "pai_queue_oldest_seconds", "pai_node_cpu_percent", "pai_node_memory_used_bytes", "pai_node_disk_used_bytes", "pai_loop_lag_seconds", "pai_turn_seconds_total"];
const HOUR_MS = 3_600_000;
const SPANS: Record<string, number> = { "1h": 1, "6h": 6, "1d": 24, "7d": 168, "30d": 720 };

function useMetrics(hours: number) {
  return useQueries({
    queries: METRICS.map((name) => ({
      queryKey: ["metrics", name, hours],
      queryFn: () => answer(http.GET("/api/v2/metrics/{name}", { params: { path: { name }, query: { start: Date.now() - hours * HOUR_MS, series: 12 } } })) as Promise<Schemas["MetricChart"]>,
      refetchInterval: hours > 6 ? 6 * SLOW_MS : SLOW_MS,
    })),
  });
}

export default function MetricsPage() {
  const [query, change] = useAddress();
  const chosen = query["span"] && query["span"] in SPANS ? query["span"] : "1h";
  const found = useMetrics(SPANS[chosen] ?? 1);
  const shown = found.flatMap((one) => (one.data && hasValues(one.data) ? [one.data] : []));
  const first = found[0];
  const names: Record<string, string> = { "1h": i18n.t("hour"), "6h": i18n.t("6 hours"), "1d": i18n.t("day"), "7d": i18n.t("week"), "30d": i18n.t("30 days") };
  return (
    <Page wide title={i18n.t("Metrics")} lead={i18n.t("Use of the cluster, and the health of the platform.")} actions={<CopyCommand words={["metrics", "show", "pai_vc_gpus_used", "--since", chosen]} />}>
      <Health />
      <SegmentedControl size="xs" className={css.spans} aria-label={i18n.t("Time")} value={chosen} onChange={(span) => change({ span: span === "1h" ? "" : span })} data={Object.keys(SPANS).map((value) => ({ value, label: names[value] ?? value }))} />
      {first && (
        <Loaded query={first} rows={10}>
          {() => shown.length ? <div className={css.charts}>{shown.map((metric) => <MetricChart key={metric.name} metric={metric} />)}</div>
            : <Note icon="clock" title={i18n.t("Nothing measured yet")}>{i18n.t("Everything is measured every ten seconds; the first charts appear in a moment.")}</Note>}
        </Loaded>
      )}
    </Page>
  );
}
