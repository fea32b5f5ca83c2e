// The rules of alerts: what they watch and do, each with a trial on the past before it is saved.
import { i18n } from "@lingui/core";
import { Button, Drawer, NumberInput, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { answer, http } from "@/api/client";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded, Note } from "@/ui/Loaded";
import { Card } from "@/ui/Page";
import { Refusal, Revised } from "@/ui/Revised";
import { Table } from "@/ui/Table";
import { Ago, exact, span } from "@/ui/time";
import css from "./AlertsPage.module.css";
import { useChanged, useRule, useRuleHistory, useRules, type Rule, type Trial } from "./queries";

const NEW = "+";
const TEMPLATE = "alert: GpuHot\nexpr: DCGM_FI_DEV_GPU_TEMP > 85\nfor: 10m\nseverity: warn\ndryRun: true\nactions: [cordon]\n";

export function Rules() {
  const [query, change] = useAddress();
  const [word, setWord] = useState("");
  const asked = query["rule"] ?? "";
  const detail = useRule(asked === NEW ? "" : asked);
  const close = () => change({ rule: "" });
  return (
    <Card flush>
      <div className={css.bar}>
        <TextInput size="xs" leftSection={<Icon name="search" size={15} />} aria-label={i18n.t("Search rules")} placeholder={i18n.t("Search rules")} value={word} onChange={(event) => setWord(event.target.value)} />
        <Button size="xs" leftSection={<Icon name="submit" size={15} />} onClick={() => change({ rule: NEW }, { push: true })}>{i18n.t("New rule")}</Button>
      </div>
      <Loaded query={useRules()} rows={10}>
        {(rules) => {
          const lower = word.toLowerCase();
          const found = rules.filter((one) => `${one.name} ${one.expr} ${one.severity}`.toLowerCase().includes(lower));
          if (!found.length) return <Note icon="search" title={i18n.t("No such rule")} />;
          return (
            <Table label={i18n.t("Rules")} heads={[i18n.t("Name"), i18n.t("Condition"), i18n.t("Does"), i18n.t("Changed")]}>
              {found.map((one) => <Row key={one.name} rule={one} open={() => change({ rule: one.name }, { push: true })} />)}
            </Table>
          );
        }}
      </Loaded>
      <Drawer opened={Boolean(asked)} onClose={close} position="right" size={680} title={asked === NEW ? i18n.t("New rule") : asked} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
        {asked === NEW && <OneRule close={close} />}
        {asked && asked !== NEW && <Loaded query={detail} rows={8}>{(found) => <OneRule key={found.name} rule={found} close={close} />}</Loaded>}
      </Drawer>
    </Card>
  );
}

function Row({ rule, open }: { rule: Rule; open: () => void }) {
  const does = [...rule.actions, ...rule.notify.map((one) => i18n.t("notifies {who}", { who: one }))].join(", ");
  return (
    <tr>
      <td>
        <span className={css.severity} data-severity={rule.severity}>{rule.severity}</span> <button type="button" className={css.name} onClick={open}>{rule.name}</button>
        {!rule.enabled && <span className={css.tag}>{i18n.t("off")}</span>}
        {rule.dryRun && <span className={css.tag}>{i18n.t("only records")}</span>}
      </td>
      <td><code>{rule.expr}</code>{rule.forSeconds > 0 && <div className={css.dim}>{i18n.t("for {span}", { span: span(rule.forSeconds * 1000) })}</div>}{rule.problem && <div className={css.wrong}>{rule.problem}</div>}</td>
      <td>{does || "–"}</td>
      <td>{rule.changedTime ? <><Ago ms={rule.changedTime} /> · {rule.changedBy}</> : "–"}</td>
    </tr>
  );
}

/** Returns the name that a rule's text gives it. */
export function nameIn(text: string): string {
  return /^\s*alert:\s*["']?([A-Za-z_][A-Za-z0-9_]*)/m.exec(text)?.[1] ?? "";
}

function OneRule({ rule, close }: { rule?: Rule; close: () => void }) {
  const name = rule?.name ?? "";
  return (
    <Revised
      commands={{ show: ["alert", "rules", name || "NAME"], revert: ["alert", "revert", name], edit: ["alert", "edit", name || "NAME", "--file", "rule.yaml"] }}
      label={i18n.t("Alert rule")}
      name={name}
      isNamedInside
      text={rule?.text ?? TEMPLATE}
      origin={rule?.origin ?? "new"}
      mayChange
      afterwards={rule?.bundled ? i18n.t("The built-in rule holds again, from the next evaluation on.") : i18n.t("Its alerts end.")}
      trial={(edit) => <TryOut text={edit.text} />}
      history={useRuleHistory(name, Boolean(rule))}
      save={(edit) => answer(http.PUT("/api/v2/alert-rules/{name}", { params: { path: { name: name || nameIn(edit.text) || "unnamed" } }, body: { text: edit.text, reason: edit.reason, revision: edit.isForced || !rule ? null : rule.revision } }))}
      revert={(reason) => answer(http.DELETE("/api/v2/alert-rules/{name}", { params: { path: { name }, query: { reason } } }))}
      changed={useChanged()}
      close={close}
    />
  );
}

/** Tries a rule on the past: when it would have fired, and what it would have done. */
function TryOut({ text }: { text: string }) {
  const [days, setDays] = useState(7);
  const test = useMutation({ mutationFn: () => answer(http.POST("/api/v2/alert-rules/test", { body: { text, sinceHours: days * 24 } })) as Promise<Trial> });
  return (
    <>
      <div className={css.line}>
        <NumberInput size="xs" label={i18n.t("Days back")} min={1} max={31} value={days} onChange={(value) => setDays(Math.min(Math.max(Number(value), 1), 31))} hideControls />
        <CopyCommand words={["alert", "test", "--file", "rule.yaml", "--since", `${days}d`]} />
        <Button size="xs" variant="default" loading={test.isPending} onClick={() => test.mutate()}>{i18n.t("Try it on the past")}</Button>
      </div>
      <Refusal error={test.error} />
      {test.data && <Result trial={test.data} />}
    </>
  );
}

function Result({ trial }: { trial: Trial }) {
  return (
    <div className={css.result} role="status">
      <p>{i18n.t("{count, plural, =0 {It would not have fired.} one {It would have fired once.} other {It would have fired # times.}}", { count: trial.alerts.length })} {trial.actions.length > 0 && i18n.t("{count, plural, one {One action.} other {# actions.}}", { count: trial.actions.length })}</p>
      {trial.problem && <p className={css.wrong}>{trial.problem}</p>}
      {trial.unknown.length > 0 && <p>{i18n.t("No past is kept of {names}.", { names: trial.unknown.join(", ") })}</p>}
      <ul>{trial.alerts.slice(0, 20).map((one, index) => <li key={index}>{one.firedTime ? exact(one.firedTime) : "–"}: {one.summary || Object.values(one.labels).join(", ")}</li>)}</ul>
      <ul>{trial.actions.slice(0, 20).map((one, index) => <li key={index}>{exact(one.time)}: {one.action} {one.target}{one.refused && ` (${one.refused})`}</li>)}</ul>
    </div>
  );
}
