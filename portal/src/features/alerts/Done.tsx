// What alerts did, and the messages that left or wait.
import { i18n } from "@lingui/core";
import { Loaded, Note } from "@/ui/Loaded";
import { Card } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { Ago, When } from "@/ui/time";
import css from "./AlertsPage.module.css";
import { useActions, useMessages } from "./queries";

export function Done() {
  return (
    <div className={css.stack}>
      <Card title={i18n.t("Actions")} flush>
        <Loaded query={useActions()} rows={5}>
          {(actions) => actions.length ? (
            <Table label={i18n.t("Actions")} heads={[i18n.t("Time"), i18n.t("Rule"), i18n.t("Action"), i18n.t("State"), i18n.t("What became of it")]}>
              {actions.map((one) => (
                <tr key={`${one.time}${one.fingerprint}${one.action}${one.target}`}>
                  <td><Ago ms={one.time} /></td><td>{one.rule}</td><td>{one.action} {one.target}</td><td>{stateName(one.state)}</td><td>{one.detail || "–"}</td>
                </tr>
              ))}
            </Table>
          ) : <Note icon="check" title={i18n.t("No alert has done anything")}>{i18n.t("Actions of rules, also those that limits prevented, are listed here.")}</Note>}
        </Loaded>
      </Card>
      <Card title={i18n.t("Messages")} flush>
        <Loaded query={useMessages()} rows={5}>
          {(messages) => messages.length ? (
            <Table label={i18n.t("Messages")} heads={[i18n.t("Time"), i18n.t("Channel"), i18n.t("Subject"), i18n.t("State")]}>
              {messages.map((one) => (
                <tr key={one.id}>
                  <td><Ago ms={one.createdTime} /></td><td>{one.channel}</td><td>{one.subject}</td>
                  <td>{stateName(one.state)}{one.state === "waiting" && <> · <When ms={one.nextTime} /></>}{one.error && <div className={css.wrong}>{one.error}</div>}</td>
                </tr>
              ))}
            </Table>
          ) : <Note icon="check" title={i18n.t("No messages")}>{i18n.t("What is sent by mail or to a webhook is listed here until it is delivered, and for some time after.")}</Note>}
        </Loaded>
      </Card>
    </div>
  );
}

function stateName(state: string): string {
  const names: Record<string, string> = {
    planned: i18n.t("planned"), started: i18n.t("started"), done: i18n.t("done"), failed: i18n.t("failed"), limited: i18n.t("prevented by a limit"), dry: i18n.t("only recorded"),
    waiting: i18n.t("waiting"), sent: i18n.t("sent"), given_up: i18n.t("given up"),
  };
  return names[state] ?? state;
}
