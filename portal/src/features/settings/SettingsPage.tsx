// The settings of the server with where each comes from, and what is changed while it runs, for administrators.
import { i18n } from "@lingui/core";
import { Checkbox } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import { useAddress } from "@/ui/address";
import { CopyCommand, copy } from "@/ui/Copy";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { Search } from "@/ui/Search";
import { Table } from "@/ui/Table";
import { Ago } from "@/ui/time";
import { notify } from "@/ui/notices";
import css from "./SettingsPage.module.css";
import { found, shownValue, type ServerSetting } from "./settings";

type Live = Schemas["LiveSetting"];
/** The pages on which what has a name here is changed. */
const PAGES: Record<string, string> = { guarantees: "/virtual-clusters", "exit-specs": "/exit-specs", "alert-rules": "/alerts", marketplace: "/market" };

export default function SettingsPage() {
  const settings = useQuery({ queryKey: ["settings"], queryFn: () => answer(http.GET("/api/v2/settings")) as Promise<Schemas["Settings"]> });
  const [query, change] = useAddress();
  const isSetOnly = query["set"] === "yes";
  return (
    <Page title={i18n.t("Settings")} lead={i18n.t("With what the server was started, and what is changed while it runs.")} actions={<CopyCommand words={["settings", ...(isSetOnly ? [] : ["--all"])]} />}>
      <Card title={i18n.t("Changed while the server runs")} flush>
        <Loaded query={settings} rows={7}>{(all) => <LiveTable live={all.live} />}</Loaded>
      </Card>
      <Card title={i18n.t("Of the server: another value needs a restart")} flush>
        <div className={css.bar}>
          <Search size="xs" label={i18n.t("Search settings")} query={query} change={change} />
          <Checkbox label={i18n.t("Only those that are set")} checked={isSetOnly} onChange={(event) => change({ set: event.target.checked ? "yes" : "" })} />
        </div>
        <Loaded query={settings} rows={10}>
          {(all) => {
            const shown = found(all.server, query["q"] ?? "", isSetOnly);
            if (!shown.length) return <Note icon="search" title={i18n.t("No such setting")}>{isSetOnly && i18n.t("Every other setting has its default.")}</Note>;
            return (
              <Table label={i18n.t("Settings of the server")} heads={[i18n.t("Setting"), i18n.t("Value"), i18n.t("From")]}>
                {shown.map((one) => <Row key={one.name} setting={one} />)}
              </Table>
            );
          }}
        </Loaded>
      </Card>
    </Page>
  );
}

function Row({ setting }: { setting: ServerSetting }) {
  const standard = shownValue(setting.default);
  return (
    <tr>
      <td className={css.setting}>
        <code className={css.name}>{setting.name}</code>
        <div className={css.dim}>{setting.meaning}{setting.choices.length > 0 && ` ${i18n.t("One of: {choices}.", { choices: setting.choices.join(", ") })}`}</div>
      </td>
      <td>
        <code>{shownValue(setting.value)}</code>
        {setting.hidden && <div className={css.dim}>{i18n.t("a part that may be secret is not shown")}</div>}
        {setting.source !== "default" && <div className={css.dim}>{i18n.t("default: {value}", { value: standard })}</div>}
      </td>
      <td><Source setting={setting} /></td>
    </tr>
  );
}

function Source({ setting }: { setting: ServerSetting }) {
  switch (setting.source) {
    case "option":
      return <>{i18n.t("command line")} <div className={css.dim}><code>--{setting.name}</code></div></>;
    case "environment":
      return <>{i18n.t("environment")} <div className={css.dim}><code>{setting.environment}</code></div></>;
    case "file":
      return <>{i18n.t("file")} <div className={css.dim}><code>{setting.file}</code></div></>;
    default:
      return <span className={css.dim}>{i18n.t("default")}</span>;
  }
}

function LiveTable({ live }: { live: readonly Live[] }) {
  return (
    <Table label={i18n.t("Changed while the server runs")} heads={[i18n.t("Setting"), i18n.t("Command"), i18n.t("Changed")]}>
      {live.map((one) => (
        <tr key={one.name}>
          <td className={css.setting}>
            {PAGES[one.name] ? <Link className={css.name} to={PAGES[one.name] ?? ""}>{one.name}</Link> : <span className={css.name}>{one.name}</span>}
            <div className={css.dim}>{one.meaning}</div>
          </td>
          <td><button type="button" className={css.command} title={i18n.t("Copy as command")} onClick={() => void copy(one.command).then(() => notify(i18n.t("Copied")))}><code>{one.command}</code></button></td>
          <td>{one.changedTime ? <><Ago ms={one.changedTime} /> · {one.changedBy || i18n.t("the platform")}</> : <span className={css.dim}>{i18n.t("never")}</span>}</td>
        </tr>
      ))}
    </Table>
  );
}
