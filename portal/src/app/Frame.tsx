// The frame around every page: navigation, the user's menu, the command palette, and the login where it is needed.
import { i18n } from "@lingui/core";
import { useLingui } from "@lingui/react";
import { ActionIcon, Drawer, Loader } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { Outlet, useLocation } from "@tanstack/react-router";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { ApiError, pageKey, whenLoginEnds, whenPageKeyChanges } from "@/api/client";
import { useLive } from "@/api/live";
import { ME, useMe } from "@/api/session";
import { Login, LoginAgain } from "@/features/session/Login";
import { Announcer } from "@/ui/announce";
import { useFocusAfterDialogs, useFocusOnPage } from "@/ui/focus";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { Problem } from "@/ui/Loaded";
import { Notices } from "@/ui/notices";
import css from "./Frame.module.css";
import { Menus } from "./Menus";
import { Navigation } from "./Navigation";
import { Palette } from "./Palette";

const KEYS = navigator.platform.startsWith("Mac") ? "⌘K" : "Ctrl K";

export function Frame() {
  useLingui();
  const me = useMe();
  if (me.data === undefined)
    return me.error ? <Problem error={me.error} again={() => void me.refetch()} /> : <Waiting />;
  if (me.data === null) return <Login />;
  return <Signed />;
}

/** What the page shows before it is known who is logged in: what stood there before the program was loaded. */
function Waiting() {
  return (
    <div role="status" aria-busy="true" aria-label={i18n.t("Loading")}>
      <p className="boot"><img src="/favicon.svg" width="26" height="26" alt="" />OpenPAI</p>
      <div className={css.first}><Loader /></div>
    </div>
  );
}

function Signed() {
  const [isMenuOpen, menu] = useDisclosure();
  const [isPaletteOpen, palette] = useDisclosure();
  const [isOver, setIsOver] = useState(false);
  const queries = useQueryClient();
  useLive(queries, useMe().data?.username ?? "");
  const path = useLocation({ select: (location) => location.pathname });
  useEffect(() => whenLoginEnds(() => setIsOver(true)), []);
  const goOn = () => {
    setIsOver(false);
    void queries.invalidateQueries();
  };
  // Also a login in another tab, or in the window that was opened for it.
  useEffect(() => whenPageKeyChanges(() => pageKey() && goOn()), []);
  useEffect(() => menu.close(), [path]);
  const main = useFocusOnPage(path);
  useFocusAfterDialogs(main);
  // Also from fields and from the editor of a job file.
  useHotkeys([["mod+K", palette.open]], [], true);
  return (
    <div className={css.frame}>
      <a className={css.skip} href="#main">{i18n.t("Skip to the content")}</a>
      <aside className={css.side}>
        <Brand />
        <Navigation path={path} />
        <div className={css.bottom}><Menus /></div>
      </aside>
      <div className={css.column}>
        <header className={css.top}>
          <ActionIcon className={css.burger} variant="subtle" color="gray" size="lg" onClick={menu.open} aria-label={i18n.t("Open the menu")}>
            <Icon name="menu" size={22} />
          </ActionIcon>
          <span className={css.topBrand}><Brand /></span>
          <button type="button" className={css.find} onClick={palette.open}>
            <Icon name="search" size={16} />
            <span>{i18n.t("Find a job or a page")}</span>
            <kbd>{KEYS}</kbd>
          </button>
        </header>
        <Reachable />
        <main ref={main} id="main" className={css.main} tabIndex={-1}><Outlet /></main>
      </div>
      <Drawer opened={isMenuOpen} onClose={menu.close} size={270} title={<Brand />} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
        <Navigation path={path} />
        <Menus />
      </Drawer>
      {isPaletteOpen && <Palette onClose={palette.close} />}
      {isOver && <LoginAgain onDone={goOn} onOther={() => queries.setQueryData(ME, null)} />}
      <Notices />
      <Announcer />
    </div>
  );
}

function Brand() {
  return (
    <Link to="/" className={css.brand}>
      <img src="/favicon.svg" alt="" width={26} height={26} />
      <span>OpenPAI</span>
    </Link>
  );
}

/** Says that the server cannot be reached; what is on the page stays, and nothing typed is lost. */
function Reachable() {
  const queries = useQueryClient();
  const [isLost, setIsLost] = useState(false);
  useEffect(() => {
    const look = () => {
      const all = queries.getQueryCache().getAll().filter((query) => query.isActive());
      setIsLost(all.some((query) => query.state.fetchFailureReason instanceof ApiError && query.state.fetchFailureReason.isTemporary));
    };
    return queries.getQueryCache().subscribe(look);
  }, [queries]);
  if (!isLost) return null;
  return (
    <div className={css.lost} role="status">
      <Icon name="warn" size={16} /> {i18n.t("The server does not answer. The page continues as soon as it does; nothing you typed is lost.")}
    </div>
  );
}
