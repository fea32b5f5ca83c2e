// The user's menu: theme, language, documentation, log out.
import { i18n } from "@lingui/core";
import { Menu, useMantineColorScheme } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { logOut, ME, useMe } from "@/api/session";
import type { ReactNode } from "react";
import { Icon, type IconName } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { notifyError } from "@/ui/notices";
import css from "./Menus.module.css";
import { choose, LANGUAGES, type Language } from "./language";

export function Menus() {
  const me = useMe().data;
  const queries = useQueryClient();
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const leave = async () => {
    try {
      await logOut();
    } catch (error) {
      notifyError(error);
      return;
    }
    queries.setQueryData(ME, null);
    queries.removeQueries({ predicate: (query) => query.queryKey[0] !== ME[0] });
  };
  return (
    <Menu withInitialFocusPlaceholder={false} withinPortal={false} position="top-start" width={216} shadow="md" transitionProps={{ duration: 80 }}>
      <Menu.Target>
        <button type="button" className={css.me}>
          <span className={css.face} aria-hidden="true">{me?.username.slice(0, 1).toUpperCase()}</span>
          <span className={css.name}>
            {me?.username}
            {me?.admin && <small>{i18n.t("administrator")}</small>}
          </span>
          <Icon name="up" size={15} />
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item leftSection={<Icon name="user" size={16} />} renderRoot={(props) => <Link to="/profile" {...props} />}>{i18n.t("Profile")}</Menu.Item>
        <Menu.Divider />
        <div role="group" aria-label={i18n.t("Theme")}>
        <Menu.Label>{i18n.t("Theme")}</Menu.Label>
        {(["light", "dark", "auto"] as const).map((scheme) => (
          <Choice key={scheme} icon={scheme === "dark" ? "moon" : "sun"} isChosen={colorScheme === scheme} choose={() => setColorScheme(scheme)}>
            {scheme === "light" ? i18n.t("Light") : scheme === "dark" ? i18n.t("Dark") : i18n.t("As the system")}
          </Choice>
        ))}
        </div>
        <div role="group" aria-label={i18n.t("Language")}>
        <Menu.Label>{i18n.t("Language")}</Menu.Label>
        {(Object.keys(LANGUAGES) as Language[]).map((language) => (
          <Choice key={language} icon="language" lang={language} isChosen={i18n.locale === language} choose={() => void choose(language)}>
            {LANGUAGES[language]}
          </Choice>
        ))}
        </div>
        <Menu.Divider />
        <Menu.Item component="a" href="/docs" target="_blank" leftSection={<Icon name="terminal" size={16} />}>{i18n.t("REST API")}</Menu.Item>
        <Menu.Item leftSection={<Icon name="logout" size={16} />} onClick={() => void leave()}>{i18n.t("Log out")}</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

interface ChoiceProps {
  icon: IconName;
  isChosen: boolean;
  choose: () => void;
  lang?: string;
  children: ReactNode;
}

/** One of several of which one holds. */
function Choice({ icon, isChosen, choose, lang, children }: ChoiceProps) {
  return (
    <Menu.RadioItem value="" checked={isChosen} onChange={choose} closeMenuOnClick lang={lang} checkIcon={<Icon name="check" size={15} />}>
      <span className={css.choice}><Icon name={icon} size={16} />{children}</span>
    </Menu.RadioItem>
  );
}
