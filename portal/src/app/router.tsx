// Addresses to pages; the code of a page is loaded when it is opened, or when a pointer rests on a link to it.
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  type AnyRoute,
} from "@tanstack/react-router";
import { i18n } from "@lingui/core";
import { part } from "@/api/parts";
import { Note, Problem } from "@/ui/Loaded";
import { Link } from "@/ui/Link";
import { LoggedIn } from "@/features/session/Login";
import { Frame } from "./Frame";
import { PAGES } from "./pages";

const root = createRootRoute({
  component: Frame,
  notFoundComponent: () => (
    <Note icon="search" title={i18n.t("There is no such page")} actions={<Link to="/">{i18n.t("Home")}</Link>} />
  ),
});

const routes: AnyRoute[] = PAGES.map((page) =>
  createRoute({ getParentRoute: () => root, path: page.path, component: lazyRouteComponent(() => part(page.load)) }),
);
routes.push(createRoute({ getParentRoute: () => root, path: "/login", component: LoggedIn }));

export const router = createRouter({
  routeTree: root.addChildren(routes),
  // Words as they are written: a job may be named 007.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (query) => {
    const text = new URLSearchParams(query as Record<string, string>).toString();
    return text ? `?${text}` : "";
  },
  // Also a part of the program that did not arrive: browsers may remember that it did not, until the page is loaded again.
  defaultErrorComponent: ({ error }) => <Problem error={error as Error} again={() => location.reload()} />,
  scrollRestoration: false,
  defaultPreloadStaleTime: 0,
});
