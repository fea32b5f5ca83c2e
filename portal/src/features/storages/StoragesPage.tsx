// Storages: which a user may use, and the files in them.
import { i18n } from "@lingui/core";
import { Button, Drawer } from "@mantine/core";
import { useMe } from "@/api/session";
import { useStorages } from "@/api/storages";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { Browser } from "./Browser";
import { Manage, useChangedStorages } from "./Manage";
import { StorageForm } from "./StorageForm";
import css from "./StoragesPage.module.css";

/** Of no storage, whose names begin with a letter or a digit. */
const NEW = "+";

export default function StoragesPage() {
  const [query, change] = useAddress();
  const isAdmin = Boolean(useMe().data?.admin);
  const managed = isAdmin ? query["manage"] : undefined;
  const changed = useChangedStorages();
  return (
    <Page title={i18n.t("Storages")} lead={i18n.t("Data that jobs mount, and that you browse here.")} actions={<><CopyCommand words={["storage", "list"]} />{isAdmin && <Button size="xs" leftSection={<Icon name="submit" size={15} />} onClick={() => change({ manage: NEW }, { push: true })}>{i18n.t("New storage")}</Button>}</>}>
      <Loaded query={useStorages()} rows={5}>
        {({ storages }) => {
          if (!storages.length)
            return <Card><Note icon="storage" title={i18n.t("No storage yet")}>{isAdmin ? i18n.t("Add one, and grant it to groups: their members browse it here, and their jobs mount it.") : i18n.t("An administrator adds one and grants it to your group.")}</Note></Card>;
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
      <Drawer opened={Boolean(managed)} onClose={() => change({ manage: "" })} position="right" size={480} closeOnClickOutside={false} title={managed === NEW ? i18n.t("New storage") : managed} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
        {managed === NEW && <StorageForm onSaved={async (name) => { await changed(name); change({ storage: name, manage: name }); }} />}
        {managed && managed !== NEW && <Manage key={managed} name={managed} />}
      </Drawer>
    </Page>
  );
}
