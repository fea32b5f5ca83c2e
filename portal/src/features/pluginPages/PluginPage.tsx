// A page of another server, in a frame of its own origin: it sees neither this page nor the login here.
import { i18n } from "@lingui/core";
import { Button, Loader, useComputedColorScheme } from "@mantine/core";
import { useParams } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import type { Schemas } from "@/api/client";
import { usePluginPages } from "@/api/pluginPages";
import { useMe } from "@/api/session";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import css from "./PluginPage.module.css";
import { filled, obstacle } from "./address";

/** What a page in a frame may do. It may not send this window elsewhere, nor open dialogs of the browser. */
const MAY = "allow-scripts allow-same-origin allow-forms allow-popups allow-popups-to-escape-sandbox allow-downloads";

export default function PluginPage() {
  const { page: name = "" } = useParams({ strict: false }) as { page?: string };
  const pages = usePluginPages();
  const found = pages.data?.find((page) => page.name === name);
  if (found) return <Framed key={found.name} page={found} />;
  return (
    <Page title={i18n.t("Plug-in page")} actions={<CopyCommand words={["plugin-page", "list"]} />}>
      <Card>
        <Loaded query={pages}>
          {() => (
            <Note icon="search" title={i18n.t("There is no such plug-in page")}>
              {i18n.t("Administrators choose them with the setting plugin-pages of the server.")}
            </Note>
          )}
        </Loaded>
      </Card>
    </Page>
  );
}

function Framed({ page }: { page: Schemas["PluginPage"] }) {
  const user = useMe().data?.username ?? "";
  const theme = useComputedColorScheme("light");
  const address = filled(page.address, { user, theme, language: i18n.locale });
  const { origin, host } = new URL(address);
  const why = obstacle(address);
  const wasRefused = useRefusal(origin);
  const [loaded, setLoaded] = useState("");
  return (
    <Page
      wide
      title={page.title}
      lead={i18n.t("A page of {host}; it knows nothing of your login here.", { host })}
      actions={
        <>
          <CopyCommand words={["plugin-page", "list"]} />
          <Button component="a" href={address} target="_blank" rel="noopener noreferrer" variant="default" size="xs" leftSection={<Icon name="right" size={15} />}>
            {i18n.t("Open in a new tab")}
          </Button>
        </>
      }
    >
      {why === "own" && <Card><Note icon="lock" tone="bad" title={i18n.t("This page is of the platform itself")}>{i18n.t("A frame of the same origin could use your login. Ask an administrator to give it an address of its own.")}</Note></Card>}
      {why === "mixed" && <Card><Note icon="lock" title={i18n.t("Browsers show no page without HTTPS in one with it")}>{i18n.t("Open it in a new tab, or ask an administrator for its address with https.")}</Note></Card>}
      {!why && wasRefused && <Card><Note icon="warn" tone="bad" title={i18n.t("This page went to another address")}>{i18n.t("Only {origin} may be shown here. Open it in a new tab, or ask an administrator for the address at which it ends.", { origin })}</Note></Card>}
      {!why && !wasRefused && (
        <div className={css.frame} aria-busy={loaded !== address}>
          {loaded !== address && <div className={css.wait} role="status" aria-label={i18n.t("Loading")}><Loader size="sm" /></div>}
          <iframe className={css.page} src={address} title={page.title} sandbox={MAY} allow="fullscreen" referrerPolicy="no-referrer" onLoad={() => setLoaded(address)} />
        </div>
      )}
    </Page>
  );
}

/** Returns whether the browser refused a frame of another origin, to which the page redirected. */
function useRefusal(origin: string): boolean {
  const [is, setIs] = useState(false);
  useEffect(() => {
    setIs(false);
    const look = (event: SecurityPolicyViolationEvent) => event.effectiveDirective === "frame-src" && setIs(true);
    document.addEventListener("securitypolicyviolation", look);
    return () => document.removeEventListener("securitypolicyviolation", look);
  }, [origin]);
  return is;
}
