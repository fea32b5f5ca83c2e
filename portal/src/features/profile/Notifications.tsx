// What one hears of one's own jobs, and where: by mail, or at a webhook.
import { i18n } from "@lingui/core";
import { Button, Checkbox, NumberInput, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answer, http, type Schemas } from "@/api/client";
import { CopyCommand } from "@/ui/Copy";
import { Loaded } from "@/ui/Loaded";
import { notify } from "@/ui/notices";
import { Card } from "@/ui/Page";
import css from "./ProfilePage.module.css";

type Subscription = Schemas["Subscription"];
type Event = Subscription["on"][number];
const KEY = ["subscription"];

function eventName(event: Event): string {
  const names: Record<Event, string> = {
    start: i18n.t("A job of mine starts"), end: i18n.t("A job of mine ends"), failure: i18n.t("A job of mine fails"),
    waiting: i18n.t("A job of mine waits too long"), retry: i18n.t("A job of mine is tried again"), weekly: i18n.t("Each week: what the virtual clusters used that I manage"),
  };
  return names[event];
}

const EVENTS: readonly Event[] = ["start", "end", "failure", "waiting", "retry", "weekly"];

export function Notifications() {
  const found = useQuery({ queryKey: KEY, queryFn: () => answer(http.GET("/api/v2/alerts/subscription")) as Promise<Subscription> });
  return (
    <Card title={i18n.t("Notifications")}>
      <Loaded query={found}>{(now) => <Choice key={JSON.stringify(now)} now={now} />}</Loaded>
    </Card>
  );
}

function Choice({ now }: { now: Subscription }) {
  const [wanted, setWanted] = useState({ on: now.on, waitingMinutes: now.waitingMinutes, url: now.url, shape: now.shape });
  const queries = useQueryClient();
  const change = (part: Partial<typeof wanted>) => setWanted({ ...wanted, ...part });
  const save = useMutation({
    mutationFn: () => answer(http.PUT("/api/v2/alerts/subscription", { body: wanted })) as Promise<Subscription>,
    onSuccess: (saved) => {
      queries.setQueryData(KEY, saved);
      notify(i18n.t("The notifications are saved"));
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const isChanged = Object.entries(wanted).some(([name, value]) => JSON.stringify(value) !== JSON.stringify(now[name as keyof Subscription]));
  const waits = wanted.on.includes("waiting");
  const webhook = wanted.url ? ["--webhook", wanted.url, "--shape", wanted.shape] : [];
  return (
    <form className={css.form} onSubmit={submit}>
      {EVENTS.map((event) => (
        <Checkbox key={event} size="sm" label={eventName(event)} checked={wanted.on.includes(event)}
          onChange={(input) => change({ on: EVENTS.filter((one) => (one === event ? input.target.checked : wanted.on.includes(one))) })} />
      ))}
      {waits && <NumberInput size="sm" label={i18n.t("Too long is, in minutes")} min={1} max={100_000} value={wanted.waitingMinutes} onChange={(value) => change({ waitingMinutes: Number(value) || 1 })}
 hideControls />}
      <TextInput size="sm" type="url" label={i18n.t("To a webhook instead of mail")} placeholder="https://chat.example.org/hook" value={wanted.url} spellCheck={false} onChange={(event) => change({ url: event.target.value })} />
      {wanted.url && (
        <label className={css.field}>{i18n.t("What the webhook gets")}
          <select className={css.select} value={wanted.shape} onChange={(event) => change({ shape: event.target.value as Subscription["shape"] })}>
            {(["webhook", "slack", "teams"] as const).map((shape) => <option key={shape} value={shape}>{{ webhook: "JSON", slack: "Slack", teams: "Teams" }[shape]}</option>)}
          </select>
        </label>
      )}
      {now.problem && now.on.length > 0 && <p className={css.bad}>{i18n.t("Nothing arrives now: {problem}.", { problem: now.problem })}</p>}
      {save.error && <p role="alert" className={css.bad}>{save.error.message}</p>}
      <div className={css.line}>
        <CopyCommand words={["alert", "subscribe", ...(wanted.on.length ? wanted.on : ["none"]), ...(waits ? ["--waiting", `${wanted.waitingMinutes}m`] : []), ...webhook]} />
        <Button type="submit" variant="default" loading={save.isPending} disabled={!isChanged}>{i18n.t("Save")}</Button>
      </div>
    </form>
  );
}
