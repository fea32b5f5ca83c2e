// What the user's jobs used on each of the last seven days, as bars.
import { i18n } from "@lingui/core";
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import { SLOW_MS } from "@/api/queries";
import { hours } from "@/ui/hours";
import { Link } from "@/ui/Link";
import { Card } from "@/ui/Page";
import css from "./HomePage.module.css";

const DAY_MS = 86_400_000;

export function Week({ user }: { user: string }) {
  const days = Array.from({ length: 7 }, (_, day) => new Date(Date.now() - (6 - day) * DAY_MS).toISOString().slice(0, 10));
  const from = days[0] ?? "";
  const report = useQuery({
    queryKey: ["reports", "week", user, from],
    queryFn: () => answer(http.GET("/api/v2/reports/use", { params: { query: { by: ["day"], user: [user], from } } })) as Promise<Schemas["UsageReport"]>,
    refetchInterval: 6 * SLOW_MS,
  }).data;
  if (!report?.rows.length) return null;
  const isGpu = report.total.gpuHours > 0;
  const used = new Map(report.rows.map((row) => [row.day, isGpu ? row.gpuHours : row.cpuHours]));
  // A day with a few minutes is no full bar.
  const most = Math.max(...used.values(), 1);
  const unit = isGpu ? i18n.t("GPU hours") : i18n.t("CPU hours");
  const name = new Intl.DateTimeFormat(i18n.locale, { weekday: "short", timeZone: "UTC" });
  return (
    <Card title={i18n.t("My last seven days")} aside={<Link to="/reports" query={{ by: "user" }}>{i18n.t("Reports")}</Link>}>
      <ul className={css.week} aria-label={unit}>
        {days.map((day) => (
          <li key={day} title={day}>
            <b>{used.has(day) ? hours(used.get(day) ?? 0) : ""}</b>
            <i style={{ height: `${(64 * (used.get(day) ?? 0)) / most}px` }} />
            <span>{name.format(Date.parse(day))}</span>
          </li>
        ))}
      </ul>
      <p className={css.dim}>{i18n.t("{value} {unit} in all", { value: hours(isGpu ? report.total.gpuHours : report.total.cpuHours), unit })}{isGpu && report.total.gpuHoursWasted > 0 && ` · ${i18n.t("{value} of them wasted", { value: hours(report.total.gpuHoursWasted) })}`}</p>
    </Card>
  );
}
