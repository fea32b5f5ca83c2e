// The navigation: pages in groups, of which those with a name can be folded, so that all fit into a low window.
import { i18n } from "@lingui/core";
import { useLocalStorage } from "@mantine/hooks";
import { useId } from "react";
import { usePluginPages } from "@/api/pluginPages";
import { useMe } from "@/api/session";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import css from "./Navigation.module.css";
import { listed, pluggedIn, type Group, type Item } from "./pages";

/** Windows of this height and more have room for all pages. */
const ALL_FIT_PX = 740;

export function Navigation({ path }: { path: string }) {
  const me = useMe().data;
  const pages = listed(Boolean(me?.admin));
  const of = (group: Group) => pages.filter((page) => page.group === group);
  const admin = of("admin");
  const plugged = pluggedIn(usePluginPages().data);
  return (
    <nav aria-label={i18n.t("Pages")} className={css.nav}>
      <Items pages={of("work")} path={path} />
      <Folded id="cluster" title={i18n.t("Cluster")} pages={of("cluster")} path={path} />
      {plugged.length > 0 && <Folded id="pages" title={i18n.t("Plug-in pages")} pages={plugged} path={path} />}
      {admin.length > 0 && <Folded id="admin" title={i18n.t("Administration")} pages={admin} path={path} />}
    </nav>
  );
}

function isOf(page: Item, path: string): boolean {
  return page.path === "/" ? path === "/" : path === page.path || path.startsWith(`${page.path}/`);
}

function Items({ pages, path }: { pages: readonly Item[]; path: string }) {
  return pages.map((page) => {
    const isHere = isOf(page, path);
    return (
      <Link key={page.path} to={page.path} className={css.item} data-here={isHere || undefined} aria-current={isHere ? "page" : undefined}>
        <Icon name={page.icon} />
        {page.name()}
      </Link>
    );
  });
}

interface FoldedProps {
  id: string;
  title: string;
  pages: readonly Item[];
  path: string;
}

/** A group with its name; it stays open or folded as it was left, and is open while one of its pages is. */
function Folded({ id, title, pages, path }: FoldedProps) {
  const [isOpen, setIsOpen] = useLocalStorage({ key: `pai-navigation-${id}`, defaultValue: id !== "admin" || innerHeight >= ALL_FIT_PX, getInitialValueInEffect: false });
  const items = useId();
  const isShown = isOpen || pages.some((page) => isOf(page, path));
  return (
    <>
      <button type="button" className={css.group} aria-expanded={isShown} aria-controls={items} onClick={() => setIsOpen(!isShown)}>
        {title}
        <Icon name={isShown ? "down" : "right"} size={14} />
      </button>
      <div id={items} className={css.items} hidden={!isShown}><Items pages={pages} path={path} /></div>
    </>
  );
}
