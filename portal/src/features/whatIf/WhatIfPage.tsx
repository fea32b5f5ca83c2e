// What would have been with other promises: the simulator on the jobs that the cluster has run, before and after.
import { i18n } from "@lingui/core";
import { Button, NativeSelect, NumberInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Suspense, useState, type FormEvent } from "react";
import { answer, http, type Schemas } from "@/api/client";
import { useVirtualClusters } from "@/api/cluster";
import { later } from "@/api/parts";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { changesOf, writtenOf, type Change } from "./changes";
import { Compared } from "./Compared";
import css from "./WhatIfPage.module.css";

const Chart = later(() => import("@/ui/Chart"));

type WhatIf = Schemas["WhatIf"];
const DAYS = ["7", "30", "90", "365"];

export default function WhatIfPage() {
  const [query, change] = useAddress();
  const asked = query["change"] ?? "";
  const days = DAYS.find((one) => one === query["days"]) ?? "30";
  const vcs = useVirtualClusters();
  const found = useQuery({
    queryKey: ["what-if", asked, days],
    queryFn: () => answer(http.GET("/api/v2/scheduler/what-if", { params: { query: { change: asked, days: Number(days) } } })) as Promise<WhatIf>,
    enabled: Boolean(asked),
    staleTime: 10 * 60_000,
    // It takes a while, and a server that is busy with another one says so.
    retry: false,
    refetchOnWindowFocus: false,
  });
  return (
    <Page title={i18n.t("What if")} lead={i18n.t("The scheduler decides again about the jobs of the last days, as if virtual clusters had more or fewer GPUs. Nothing changes in the cluster.")} actions={
      <CopyCommand words={["simulate", "--history", `${days}d`, "--what-if", asked || "vision=+8"]} />
    }>
      <Loaded query={vcs}>{(of) => <Question key={asked} names={Object.keys(of).sort()} asked={asked} days={days} isRunning={found.isFetching} ask={(text, past) => {
        change({ change: text, days: past === "30" ? "" : past }, { push: true });
        if (text === asked && past === days) void found.refetch();
      }} />}</Loaded>
      {!asked && <Card><Note icon="chart" title={i18n.t("Ask what would have been")}>{i18n.t("For example 8 more GPUs for one virtual cluster, or 8 GPUs of one for another. The first replay is with the promises of now, so that both can be compared.")}</Note></Card>}
      {asked && <Loaded query={found} rows={8}>{(of) => <Answer found={of} />}</Loaded>}
    </Page>
  );
}

function Question({ names, asked, days, isRunning, ask }: { names: readonly string[]; asked: string; days: string; isRunning: boolean; ask: (text: string, days: string) => void }) {
  const [changes, setChanges] = useState<readonly Change[]>(() => {
    const found = changesOf(asked);
    return found.length ? found : [{ name: "", gpus: 8 }];
  });
  const [of, setOf] = useState(days);
  const set = (at: number, change: Partial<Change>) => setChanges(changes.map((one, index) => (index === at ? { ...one, ...change } : one)));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    ask(writtenOf(changes.map((one) => ({ ...one, name: one.name || names[0] || "" }))), of);
  };
  return (
    <Card>
      <form className={css.form} onSubmit={submit}>
        {changes.map((one, at) => (
          <div key={at} className={css.row}>
            <NativeSelect label={i18n.t("Virtual cluster")} value={one.name || names[0]} onChange={(event) => set(at, { name: event.target.value })} data={[...new Set([...names, ...(one.name ? [one.name] : [])])]} />
            <NumberInput label={i18n.t("GPUs more, or fewer (-)")} allowDecimal={false} value={one.gpus} onChange={(value) => set(at, { gpus: Number(value) || 0 })} />
            {changes.length > 1 && <Button variant="default" aria-label={i18n.t("Remove this change")} onClick={() => setChanges(changes.filter((_, index) => index !== at))}><Icon name="close" size={15} /></Button>}
          </div>
        ))}
        <div className={css.row}>
          <NativeSelect label={i18n.t("Jobs of the last")} value={of} onChange={(event) => setOf(event.target.value)} data={DAYS.map((value) => ({ value, label: i18n.t("{days} days", { days: value }) }))} />
          <Button variant="default" onClick={() => setChanges([...changes, { name: "", gpus: -8 }])}>{i18n.t("One more change")}</Button>
          <Button type="submit" loading={isRunning} disabled={!names.length}>{i18n.t("Replay")}</Button>
        </div>
      </form>
    </Card>
  );
}

function Answer({ found }: { found: WhatIf }) {
  const leftOut = Object.entries(found.leftOut);
  const names = { now: i18n.t("with the promises of now"), then: i18n.t("with the change") };
  const charts = [
    { key: "gpusUsed", title: i18n.t("GPUs in use"), unit: "" },
    { key: "jobsWaiting", title: i18n.t("Jobs that wait"), unit: "" },
  ] as const;
  return (
    <>
      <Card title={i18n.t("Before and after")} flush aside={<span className={css.dim}>{i18n.t("{jobs, plural, one {# job} other {# jobs}} replayed", { jobs: found.jobs })}</span>}>
        {found.notes.length > 0 && <ul className={css.notes}>{found.notes.map((note) => <li key={note}>{note}</li>)}</ul>}
        <Compared now={found.now} then={found.then} />
        {leftOut.length > 0 && <p className={css.left}>{i18n.t("Left out:")} {leftOut.map(([reason, count]) => `${count} ${reason}`).join("; ")}.</p>}
      </Card>
      <div className={css.charts}>
        {charts.map(({ key, title, unit }) => (
          <Card key={key} title={title}>
            <Suspense fallback={<div role="status" aria-busy="true">{i18n.t("Loading")}</div>}>
              <Chart label={title} unit={unit} startMs={found.fromTime} stepMs={found.now.stepSeconds * 1_000} lines={[{ name: names.now, values: found.now[key] }, { name: names.then, values: resampled(found.then[key], found.then.stepSeconds, found.now.stepSeconds) }]} />
            </Suspense>
          </Card>
        ))}
      </div>
    </>
  );
}

/** Returns values of another step, so that both lines have the same times. */
function resampled(values: readonly number[], step: number, wanted: number): (number | null)[] {
  if (step === wanted) return [...values];
  return Array.from({ length: Math.ceil((values.length * step) / wanted) }, (_, point) => values[Math.floor((point * wanted) / step)] ?? null);
}
