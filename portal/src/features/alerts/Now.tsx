// What needs attention now, the gravest first; an administrator may silence it.
import { i18n } from "@lingui/core";
import { Button, NumberInput, TextInput } from "@mantine/core";
import { useState } from "react";
import { answer, http } from "@/api/client";
import { Ask } from "@/ui/Ask";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import { notify } from "@/ui/notices";
import { Card } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { Ago } from "@/ui/time";
import css from "./AlertsPage.module.css";
import { useAlerts, useChanged, type Alert } from "./queries";

const GRAVE = ["critical", "fatal", "error", "warning", "warn", "info"];

function gravity(alert: Alert): number {
  const found = GRAVE.indexOf(alert.labels["severity"] ?? "");
  return found < 0 ? GRAVE.length : found;
}

/** Returns the labels that say what an alert is about, as a silence wants them. */
function matchersOf(alert: Alert): string[] {
  const { alertname, severity: _, ...rest } = alert.labels;
  return [alertname ?? "", ...Object.entries(rest).map(([name, value]) => `${name}=${value}`)].filter(Boolean);
}

export function Now({ isAdmin }: { isAdmin: boolean }) {
  const [chosen, setChosen] = useState<Alert | null>(null);
  return (
    <Card flush>
      <Loaded query={useAlerts()} rows={6}>
        {(alerts) => {
          if (!alerts.length) return <Note icon="check" title={i18n.t("Nothing needs attention")}>{isAdmin ? i18n.t("Rules are evaluated all the time; what they find appears here.") : i18n.t("Alerts about your jobs appear here.")}</Note>;
          const sorted = [...alerts].sort((one, other) => gravity(one) - gravity(other) || other.startsAt.localeCompare(one.startsAt));
          return (
            <Table label={i18n.t("Alerts")} heads={[i18n.t("Alert"), i18n.t("What"), i18n.t("Since"), ...(isAdmin ? [""] : [])]}>
              {sorted.map((one) => (
                <tr key={one.fingerprint}>
                  <td><span className={css.severity} data-severity={one.labels["severity"]}>{one.labels["severity"]}</span> <strong>{one.labels["alertname"]}</strong></td>
                  <td>{one.annotations.summary}{one.labels["job_name"] && <> · <Link to={`/jobs/${one.labels["job_name"]}`}>{one.labels["job_name"]}</Link></>}{one.annotations.next && <div className={css.dim}><code>{one.annotations.next}</code></div>}</td>
                  <td><Ago ms={Date.parse(one.startsAt)} /></td>
                  {isAdmin && <td>{one.status.state === "suppressed" ? <span className={css.dim}>{i18n.t("silenced")}</span> : <Button size="compact-xs" variant="default" onClick={() => setChosen(one)}>{i18n.t("Silence")}</Button>}</td>}
                </tr>
              ))}
            </Table>
          );
        }}
      </Loaded>
      {chosen && <SilenceOne alert={chosen} onClose={() => setChosen(null)} />}
    </Card>
  );
}

function SilenceOne({ alert, onClose }: { alert: Alert; onClose: () => void }) {
  const [hours, setHours] = useState(2);
  const [comment, setComment] = useState("");
  const changed = useChanged();
  const matchers = matchersOf(alert);
  const act = async () => {
    await answer(http.POST("/api/v2/alerts/silences", { body: { matchers, minutes: hours * 60, comment } }));
    notify(i18n.t("It is silenced"));
    await changed();
  };
  return (
    <Ask title={i18n.t("Silence this alert?")} verb={i18n.t("Silence")} command={["alert", "silence", ...matchers, "--for", `${hours}h`]} onClose={onClose} act={act}>
      <p>{i18n.t("It neither notifies nor acts for a time: {matchers}.", { matchers: matchers.join(", ") })}</p>
      <NumberInput label={i18n.t("Hours")} min={1} max={8_784} value={hours} onChange={(value) => setHours(Math.max(Number(value), 1))} />
      <TextInput label={i18n.t("Reason")} value={comment} onChange={(event) => setComment(event.target.value)} />
    </Ask>
  );
}
