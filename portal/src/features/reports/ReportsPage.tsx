// Who used how much in a time, what of it was wasted, borrowed and lent; as charts, as a table and as CSV.
import { i18n } from "@lingui/core";
import { Button, SegmentedControl, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { Suspense } from "react";
import { later } from "@/api/parts";
import { useMe } from "@/api/session";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded, Note } from "@/ui/Loaded";
import { notifyError } from "@/ui/notices";
import { Card, Fact, Facts, Page } from "@/ui/Page";
import { saved } from "@/ui/saving";
import { hours } from "@/ui/hours";
import { DAY_MS, dayAfter, dayOf, daysOf, lately, periodOf, startOf, type Period } from "./period";
import { csvOf, useReport, type By, type Report } from "./queries";
import css from "./ReportsPage.module.css";
import { UseTable } from "./UseTable";
import { Utilisation } from "./Utilisation";
import { Weekly } from "./Weekly";

const Chart = later(() => import("@/ui/Chart"));
const BYS: readonly By[] = ["user", "group", "vc", "day"];

export default function ReportsPage() {
  const isAdmin = Boolean(useMe().data?.admin);
  const [query, change] = useAddress();
  const period = periodOf(query, Date.now());
  const by = BYS.find((one) => one === query["by"]) ?? (isAdmin ? "vc" : "user");
  const report = useReport(by, period);
  const names: Record<By, string> = { user: i18n.t("Users"), group: i18n.t("Groups"), vc: i18n.t("Virtual clusters"), day: i18n.t("Days") };
  const save = useMutation({
    mutationFn: async () => saved(`use-by-${by}-${period.first}-${period.last}.csv`, await csvOf(by, period), "text/csv"),
    onError: notifyError,
  });
  return (
    <Page
      title={i18n.t("Reports")}
      lead={i18n.t("What was used in a time, and what of it did no good. You see your own use, and that of the virtual clusters that you manage.")}
      actions={<>
        <CopyCommand words={["report", "--by", by, "--from", period.first, "--to", dayAfter(period.last)]} />
        <Button size="xs" variant="default" leftSection={<Icon name="download" size={15} />} loading={save.isPending} onClick={() => save.mutate()}>CSV</Button>
      </>}
    >
      <Choice period={period} change={change} />
      <Loaded query={report} rows={4}>{(found) => <Total found={found} />}</Loaded>
      <div className={css.charts}>
        <ByDay period={period} />
        {isAdmin && <Utilisation period={period} />}
      </div>
      <Card flush title={i18n.t("Who used it")} aside={
        <SegmentedControl size="xs" aria-label={i18n.t("Use by")} value={by} onChange={(chosen) => change({ by: chosen })} data={BYS.map((value) => ({ value, label: names[value] }))} />
      }>
        <Loaded query={report} rows={6}>
          {(found) => found.rows.length ? <UseTable rows={found.rows} by={by} name={names[by]} />
            : <Note icon="chart" title={i18n.t("Nothing was used in that time")}>{i18n.t("Choose other days, or run a job: it counts from its start on.")}</Note>}
        </Loaded>
      </Card>
      <Weekly isAsked={query["weekly"] === "1"} ask={(isAsked) => change({ weekly: isAsked ? "1" : "" })} />
    </Page>
  );
}

function Choice({ period, change }: { period: Period; change: (query: Record<string, string>) => void }) {
  const now = Date.now();
  const today = dayOf(now);
  const month = { first: `${today.slice(0, 7)}-01`, last: today };
  const before = dayOf(startOf(month.first) - DAY_MS);
  const usual: [string, Period][] = [
    [i18n.t("7 days"), lately(7, now)], [i18n.t("30 days"), lately(30, now)],
    [i18n.t("this month"), month], [i18n.t("last month"), { first: `${before.slice(0, 7)}-01`, last: before }],
  ];
  const set = ({ first, last }: Period) => change({ from: first, to: last });
  return (
    <div className={css.choice}>
      <TextInput size="xs" type="date" label={i18n.t("From")} value={period.first} max={period.last} onChange={(event) => event.target.value && set({ ...period, first: event.target.value })} />
      <TextInput size="xs" type="date" label={i18n.t("Until and with")} value={period.last} min={period.first} onChange={(event) => event.target.value && set({ ...period, last: event.target.value })} />
      <span className={css.usual}>
        {usual.map(([name, one]) => (
          <Button key={name} size="xs" variant={one.first === period.first && one.last === period.last ? "light" : "default"} aria-pressed={one.first === period.first && one.last === period.last} onClick={() => set(one)}>{name}</Button>
        ))}
      </span>
      <span className={css.dim}>{i18n.t("Days are those of UTC.")}</span>
    </div>
  );
}

function Total({ found }: { found: Report }) {
  const total = found.total;
  const share = (part: number) => (total.gpuHours > 0 ? ` · ${Math.round((100 * part) / total.gpuHours)} %` : "");
  return (
    <Card>
      <Facts>
        <Fact name={i18n.t("GPU hours")}>{hours(total.gpuHours)}</Fact>
        <Fact name={i18n.t("CPU hours")}>{hours(total.cpuHours)}</Fact>
        <Fact name={i18n.t("Borrowed")}>{hours(total.gpuHoursBorrowed)}{share(total.gpuHoursBorrowed)}</Fact>
        <Fact name={i18n.t("Lent")}>{hours(total.gpuHoursLent)}</Fact>
        <Fact name={i18n.t("Wasted")}><span data-bad={total.gpuHoursWasted > 0 || undefined} className={css.wasted}>{hours(total.gpuHoursWasted)}{share(total.gpuHoursWasted)}</span></Fact>
        <Fact name={i18n.t("Wasted idle")}>{hours(total.gpuHoursIdle)}</Fact>
        <Fact name={i18n.t("Lost by failures")}>{hours(total.gpuHoursFailed)}</Fact>
        <Fact name={i18n.t("Lost by preemption")}>{hours(total.gpuHoursPreempted)}</Fact>
        <Fact name={i18n.t("Runs of tasks")}>{total.taskAttempts.toLocaleString(i18n.locale)}</Fact>
      </Facts>
    </Card>
  );
}

function ByDay({ period }: { period: Period }) {
  const found = useReport("day", period);
  const title = i18n.t("Hours of each day");
  return (
    <Card title={title}>
      <Loaded query={found} rows={6}>
        {(report) => {
          const rows = new Map(report.rows.map((row) => [row.day, row]));
          const days = daysOf(period).map((day) => rows.get(day));
          const lines = report.total.gpuHours > 0 ? [
            { name: i18n.t("GPU hours"), values: days.map((row) => row?.gpuHours ?? 0) },
            { name: i18n.t("wasted"), values: days.map((row) => row?.gpuHoursWasted ?? 0) },
            { name: i18n.t("borrowed"), values: days.map((row) => row?.gpuHoursBorrowed ?? 0) },
          ] : [{ name: i18n.t("CPU hours"), values: days.map((row) => row?.cpuHours ?? 0) }];
          return (
            <Suspense fallback={<div role="status" aria-busy="true">{i18n.t("Loading")}</div>}>
              <Chart label={title} unit="h" startMs={startOf(period.first)} stepMs={DAY_MS} lines={lines} />
            </Suspense>
          );
        }}
      </Loaded>
    </Card>
  );
}
