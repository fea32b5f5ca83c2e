// Storages: which a user may use, and the files in them.
import { i18n } from "@lingui/core";
import { useStorages } from "@/api/storages";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { Browser } from "./Browser";
import css from "./StoragesPage.module.css";

export default function StoragesPage() {
  const [query] = useAddress();
  return (
    <Page title={i18n.t("Storages")} lead={i18n.t("Data that jobs mount, and that you browse here.")} actions={<CopyCommand words={["storage", "list"]} />}>
      <Loaded query={useStorages()} rows={5}>
        {({ storages }) => {
          if (!storages.length)
            return <Card><Note icon="storage" title={i18n.t("No storage yet")}>{i18n.t("An administrator adds one with `pai storage add`, and grants it to your group.")}</Note></Card>;
          const chosen = storages.find((one) => one.name === query["storage"]) ?? storages.find((one) => one.default) ?? storages[0];
          return (
            <div className={css.grid}>
              <Card title={i18n.t("Storages")} flush>
                <ul className={css.names}>
                  {storages.map((one) => (
                    <li key={one.name}>
                      <Link to="/storages" query={{ storage: one.name }} className={css.name} data-here={one === chosen || undefined} aria-current={one === chosen ? "true" : undefined}>
                        {one.name}
                        <small>{[one.kind, one.readOnly && i18n.t("read-only"), !one.share && i18n.t("your own folder"), one.default && i18n.t("default")].filter(Boolean).join(" · ")}</small>
                        {one.description && <small>{one.description}</small>}
                      </Link>
                    </li>
                  ))}
                </ul>
              </Card>
              {chosen && <Browser key={chosen.name} storage={chosen} />}
            </div>
          );
        }}
      </Loaded>
    </Page>
  );
}
