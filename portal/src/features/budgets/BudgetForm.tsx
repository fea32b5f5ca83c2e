// A new budget, or a change of one; the server checks it.
import { i18n } from "@lingui/core";
import { Autocomplete, Button, NativeSelect, NumberInput, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answer, http } from "@/api/client";
import { CopyCommand } from "@/ui/Copy";
import { notify } from "@/ui/notices";
import css from "./BudgetsPage.module.css";
import { optionOf, useChanged, useNames, type Budget, type Kind } from "./queries";
import { kindName, periodName, stopsName } from "./words";

const KINDS: readonly Kind[] = ["vc", "group", "user"];
const PERIODS: readonly Budget["period"][] = ["month", "quarter", "total"];
const STOPS: readonly Budget["stops"][] = ["none", "opportunistic", "all"];

export function BudgetForm({ budget, onDone }: { budget?: Budget; onDone: () => void }) {
  const [kind, setKind] = useState<Kind>(budget?.kind ?? "vc");
  const [name, setName] = useState(budget?.name ?? "");
  const [period, setPeriod] = useState(budget?.period ?? "month");
  const [gpuHours, setHours] = useState<number | string>(budget?.gpuHours ?? "");
  const [warnAt, setWarnAt] = useState((budget?.warnAt ?? [0.8]).map((share) => Number((100 * share).toFixed(2))).join(", "));
  const [stops, setStops] = useState(budget?.stops ?? "none");
  const [noticeMinutes, setNotice] = useState<number | string>(budget?.noticeMinutes ?? 60);
  const [contact, setContact] = useState(budget?.contact ?? "");
  const names = useNames(kind).data ?? [];
  const changed = useChanged();
  const percents = warnAt.split(/[\s,%]+/).filter(Boolean);
  const save = useMutation({
    mutationFn: () => answer(http.PUT("/api/v2/budgets", { body: { kind, name, period, gpuHours: Number(gpuHours), warnAt: percents.map((one) => Number(one) / 100), stops, noticeMinutes: Number(noticeMinutes), contact } })),
    onSuccess: async () => {
      notify(i18n.t("The budget of {name} is set", { name }));
      await changed();
      onDone();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const words = ["budget", "set", "--gpu-hours", String(gpuHours || "HOURS"), optionOf(kind), name || "NAME", "--period", period, ...(percents.length ? ["--warn", percents.join(",")] : []), "--stop", stops, ...(stops === "none" ? [] : ["--notice", `${noticeMinutes}m`]), ...(contact ? ["--contact", contact] : [])];
  return (
    <form className={css.form} onSubmit={submit}>
      <NativeSelect label={i18n.t("Budget of a")} disabled={Boolean(budget)} value={kind} onChange={(event) => { setKind(event.target.value as Kind); setName(""); }} data={KINDS.map((value) => ({ value, label: kindName(value) }))} />
      <Autocomplete label={i18n.t("Name")} required withAsterisk={false} disabled={Boolean(budget)} value={name} onChange={setName} data={names} limit={50} />
      <NumberInput label={i18n.t("GPU hours")} required withAsterisk={false} min={0} value={gpuHours} onChange={setHours} />
      <NativeSelect label={i18n.t("In what time")} disabled={Boolean(budget)} value={period} onChange={(event) => setPeriod(event.target.value as Budget["period"])} data={PERIODS.map((value) => ({ value, label: periodName(value) }))} />
      <TextInput label={i18n.t("Warn at (percent)")} description={i18n.t("Such as 50, 80, 95; the end of a budget is always notified.")} value={warnAt} onChange={(event) => setWarnAt(event.target.value)} />
      <NativeSelect label={i18n.t("Once it is used up")} value={stops} onChange={(event) => setStops(event.target.value as Budget["stops"])} data={STOPS.map((value) => ({ value, label: stopsName(value) }))} />
      {stops !== "none" && <NumberInput label={i18n.t("Minutes of notice before they are stopped")} min={0} value={noticeMinutes} onChange={setNotice} />}
      <TextInput label={i18n.t("Whom to ask for more")} value={contact} onChange={(event) => setContact(event.target.value)} />
      {save.error && <p role="alert" className={css.bad}>{save.error.message}</p>}
      <div className={css.line}><CopyCommand words={words} /><Button type="submit" loading={save.isPending}>{i18n.t("Save")}</Button></div>
    </form>
  );
}
