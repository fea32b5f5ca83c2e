// Alerts: what needs attention now, the rules, what they did, and how messages leave the platform.
import { i18n } from "@lingui/core";
import { Tabs } from "@mantine/core";
import { useMe } from "@/api/session";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Page } from "@/ui/Page";
import css from "./AlertsPage.module.css";
import { Channels } from "./Channels";
import { Done } from "./Done";
import { Now } from "./Now";
import { Rules } from "./Rules";
import { Silences } from "./Silences";

const TABS = ["now", "rules", "done", "silences", "channels"] as const;
const COMMANDS: Record<(typeof TABS)[number], readonly string[]> = {
  now: ["alert", "list"], rules: ["alert", "rules"], done: ["alert", "actions"], silences: ["alert", "silences"], channels: ["alert", "channels"],
};

export default function AlertsPage() {
  const isAdmin = Boolean(useMe().data?.admin);
  const [query, change] = useAddress();
  const tab = TABS.find((one) => one === query["tab"]) ?? "now";
  const names = { now: i18n.t("Now"), rules: i18n.t("Rules"), done: i18n.t("What was done"), silences: i18n.t("Silences"), channels: i18n.t("Channels") };
  return (
    <Page title={i18n.t("Alerts")} lead={i18n.t("What needs attention, and what the platform does about it by itself.")} actions={<CopyCommand words={[...COMMANDS[tab]]} />}>
      {isAdmin ? (
        <Tabs value={tab} onChange={(chosen) => change({ tab: chosen === "now" ? "" : (chosen ?? ""), rule: "" })} keepMounted={false}>
          <Tabs.List className={css.tabs}>{TABS.map((one) => <Tabs.Tab key={one} value={one}>{names[one]}</Tabs.Tab>)}</Tabs.List>
          <Tabs.Panel value="now"><Now isAdmin /></Tabs.Panel>
          <Tabs.Panel value="rules"><Rules /></Tabs.Panel>
          <Tabs.Panel value="done"><Done /></Tabs.Panel>
          <Tabs.Panel value="silences"><Silences /></Tabs.Panel>
          <Tabs.Panel value="channels"><Channels /></Tabs.Panel>
        </Tabs>
      ) : <Now isAdmin={false} />}
    </Page>
  );
}
