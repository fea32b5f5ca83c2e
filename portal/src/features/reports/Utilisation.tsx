// How much of what was promised to each virtual cluster its jobs held over time, for administrators.
import { i18n } from "@lingui/core";
import { Suspense } from "react";
import { later } from "@/api/parts";
import { Loaded } from "@/ui/Loaded";
import { Card } from "@/ui/Page";
import type { Period } from "./period";
import { useUtilisation, type Metric } from "./queries";

const Chart = later(() => import("@/ui/Chart"));

/** Returns the used percent of the promise of each virtual cluster that has one. */
export function utilisationOf(used: Metric, promised: Metric): { name: string; values: (number | null)[] }[] {
  const of = (metric: Metric) => new Map(metric.series.map((one) => [one.labels["virtual_cluster"] ?? "", one.mean]));
  const guaranteed = of(promised);
  return [...of(used)].flatMap(([name, values]) => {
    const whole = guaranteed.get(name);
    if (!whole?.some((value) => value)) return [];
    return [{ name, values: values.map((value, point) => (value === null || !whole[point] ? null : (100 * value) / whole[point])) }];
  });
}

export function Utilisation({ period }: { period: Period }) {
  const [used, promised] = useUtilisation(period, true);
  const title = i18n.t("Use of the promised GPUs");
  if (!used || !promised) return null;
  return (
    <Card title={title}>
      <Loaded query={used} rows={6}>
        {(of) => {
          const lines = promised.data ? utilisationOf(of, promised.data) : [];
          if (!lines.length) return <p>{i18n.t("No virtual cluster had GPUs in that time, or nothing was measured.")}</p>;
          return (
            <Suspense fallback={<div role="status" aria-busy="true">{i18n.t("Loading")}</div>}>
              <Chart label={title} unit="percent" startMs={of.start} stepMs={of.step} lines={lines} />
            </Suspense>
          );
        }}
      </Loaded>
    </Card>
  );
}
