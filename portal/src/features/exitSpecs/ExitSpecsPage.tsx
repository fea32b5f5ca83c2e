// Exit specs: the causes of failures that the platform knows, and the rules that find them.
import { i18n } from "@lingui/core";
import { Button, Drawer, TextInput } from "@mantine/core";
import { useState } from "react";
import { useMe } from "@/api/session";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { Ago } from "@/ui/time";
import css from "./ExitSpecsPage.module.css";
import { OneSpec } from "./OneSpec";
import { useExitSpec, useExitSpecs, type Entry } from "./queries";

const NEW = "+";

export default function ExitSpecsPage() {
  const isAdmin = Boolean(useMe().data?.admin);
  const [query, change] = useAddress();
  const [word, setWord] = useState("");
  const asked = query["spec"] ?? "";
  const detail = useExitSpec(asked === NEW ? "" : asked);
  const close = () => change({ spec: "" });
  return (
    <Page title={i18n.t("Exit specs")} lead={i18n.t("The causes of failures that the platform knows, and the rules that find them.")} actions={
      <>
        <CopyCommand words={["exit-spec", "list"]} />
        {isAdmin && <Button size="xs" leftSection={<Icon name="submit" size={15} />} onClick={() => change({ spec: NEW }, { push: true })}>{i18n.t("New exit spec")}</Button>}
      </>
    }>
      <Card flush>
        <Loaded query={useExitSpecs()} rows={10}>
          {(all) => {
            const lower = word.toLowerCase();
            const found = all.filter((one) => `${one.name} ${one.summary} ${one.domain} ${one.origin}`.toLowerCase().includes(lower));
            return (
              <>
                <div className={css.bar}>
                  <TextInput size="xs" leftSection={<Icon name="search" size={15} />} aria-label={i18n.t("Search exit specs")} placeholder={i18n.t("Search exit specs")} value={word} onChange={(event) => setWord(event.target.value)} />
                  <span className={css.dim} role="status">{i18n.t("{count, plural, one {# exit spec} other {# exit specs}}", { count: found.length })}</span>
                </div>
                {found.length ? (
                  <Table label={i18n.t("Exit specs")} heads={[i18n.t("Name"), i18n.t("Cause"), i18n.t("Responsible"), i18n.t("Another attempt"), i18n.t("Changed")]}>
                    {found.map((one) => <Row key={one.name} entry={one} open={() => change({ spec: one.name }, { push: true })} />)}
                  </Table>
                ) : <Note icon="search" title={i18n.t("No such exit spec")} />}
              </>
            );
          }}
        </Loaded>
      </Card>
      <Drawer opened={Boolean(asked)} onClose={close} position="right" size={680} title={asked === NEW ? i18n.t("New exit spec") : asked} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
        {asked === NEW && <OneSpec isAdmin={isAdmin} close={close} />}
        {asked && asked !== NEW && <Loaded query={detail} rows={8}>{(found) => <OneSpec key={found.name} detail={found} isAdmin={isAdmin} close={close} />}</Loaded>}
      </Drawer>
    </Page>
  );
}

function Row({ entry, open }: { entry: Entry; open: () => void }) {
  return (
    <tr>
      <td>
        <button type="button" className={css.name} onClick={open}>{entry.name}</button>
        {entry.origin !== "bundled" && <span className={css.tag}>{entry.origin}</span>}
      </td>
      <td>{entry.summary}{entry.problem && <div className={css.dim}>{entry.problem}</div>}</td>
      <td>{entry.domain}</td>
      <td>{entry.retry}</td>
      <td>{entry.changedTime ? <><Ago ms={entry.changedTime} /> · {entry.changedBy}</> : "–"}</td>
    </tr>
  );
}
