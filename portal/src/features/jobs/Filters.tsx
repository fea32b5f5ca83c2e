// What narrows the list; each change is in the address at once, and is asked of the server.
import { i18n } from "@lingui/core";
import { Button, Menu } from "@mantine/core";
import { useVirtualClusters } from "@/api/cluster";
import type { Query } from "@/ui/address";
import { Icon } from "@/ui/Icon";
import { Search } from "@/ui/Search";
import { STATES, stateName } from "@/ui/State";
import css from "./JobsPage.module.css";

interface FiltersProps {
  query: Query;
  change: (change: Query) => void;
  me: string;
}

const PRIORITIES = ["crit", "prod", "test", "oppo", "default"];

export function Filters({ query, change, me }: FiltersProps) {
  const vcs = Object.keys(useVirtualClusters().data ?? {}).sort();
  const isMine = query["user"] === me;
  return (
    <div className={css.filters} role="search">
      <Search label={i18n.t("Search by name, user or virtual cluster")} className={css.search} size="xs" query={query} change={change} />
      <Button size="xs" variant={isMine ? "light" : "default"} aria-pressed={isMine} onClick={() => change({ user: isMine ? "" : me })}>{i18n.t("Only mine")}</Button>
      <Choice name={i18n.t("State")} chosen={query["state"]} options={STATES.map((state) => [state, stateName(state)])} onChange={(state) => change({ state })} />
      <Choice name={i18n.t("Virtual cluster")} chosen={query["vc"]} options={vcs.map((vc) => [vc, vc])} onChange={(vc) => change({ vc })} />
      <Choice name={i18n.t("Priority")} chosen={query["priority"]} options={PRIORITIES.map((one) => [one, one])} onChange={(priority) => change({ priority })} />
      {([["user", i18n.t("User")], ["tag", i18n.t("Tag")], ["node", i18n.t("Node")]] as const).map(([key, name]) => query[key] && !(key === "user" && isMine) && (
        <Button key={key} size="xs" variant="light" rightSection={<Icon name="close" size={13} />} onClick={() => change({ [key]: "" })}>{name}: {query[key]}</Button>
      ))}
    </div>
  );
}

interface ChoiceProps {
  name: string;
  chosen: string | undefined;
  options: readonly (readonly [string, string])[];
  onChange: (value: string) => void;
}

/** A menu of which several may be chosen; the address has them with commas between. */
function Choice({ name, chosen = "", options, onChange }: ChoiceProps) {
  const on = chosen.split(",").filter(Boolean);
  const names = options.filter(([value]) => on.includes(value)).map(([, text]) => text);
  const toggle = (value: string) => onChange((on.includes(value) ? on.filter((one) => one !== value) : [...on, value]).join(","));
  return (
    <Menu closeOnItemClick={false} withInitialFocusPlaceholder={false} withinPortal={false} shadow="md" position="bottom-start" transitionProps={{ duration: 80 }}>
      <Menu.Target>
        <Button size="xs" variant={on.length ? "light" : "default"} rightSection={<Icon name="down" size={14} />}>
          {name}{names.length > 0 && `: ${names.join(", ")}`}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {options.map(([value, text]) => (
          <Menu.CheckboxItem key={value} checked={on.includes(value)} onChange={() => toggle(value)}>{text}</Menu.CheckboxItem>
        ))}
        {on.length > 0 && <><Menu.Divider /><Menu.Item onClick={() => onChange("")}>{i18n.t("All")}</Menu.Item></>}
      </Menu.Dropdown>
    </Menu>
  );
}
