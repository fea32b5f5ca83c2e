// Announcements: what administrators tell all users on the first page, for a time.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { answer, http, type Schemas } from "@/api/client";
import { useMe } from "@/api/session";
import { Ask } from "@/ui/Ask";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { When } from "@/ui/time";
import css from "./AnnouncementsPage.module.css";
import { levelName, NewAnnouncement } from "./NewAnnouncement";

type Announcement = Schemas["Announcement"];

function stateName(state: Announcement["state"]): string {
  return state === "shown" ? i18n.t("shown now") : state === "waiting" ? i18n.t("to come") : i18n.t("over");
}

export default function AnnouncementsPage() {
  const isAdmin = Boolean(useMe().data?.admin);
  const found = useQuery({
    queryKey: ["announcements", isAdmin ? "all" : "shown"],
    queryFn: () => answer(http.GET("/api/v2/announcements", { params: { query: isAdmin ? { all: true } : {} } })) as Promise<Announcement[]>,
  });
  const [isNew, setIsNew] = useState(false);
  const [removed, setRemoved] = useState<Announcement | null>(null);
  const queries = useQueryClient();
  const changed = () => queries.invalidateQueries({ queryKey: ["announcements"] });
  return (
    <Page title={i18n.t("Announcements")} lead={i18n.t("What administrators tell all users on the first page, for a time.")} actions={
      <>
        <CopyCommand words={["announcement", "list", ...(isAdmin ? ["--all"] : [])]} />
        {isAdmin && <Button size="xs" leftSection={<Icon name="submit" size={15} />} onClick={() => setIsNew(true)}>{i18n.t("New announcement")}</Button>}
      </>
    }>
      <Card flush>
        <Loaded query={found} rows={4}>
          {(all) => all.length ? (
            <Table label={i18n.t("Announcements")} heads={[i18n.t("Text"), i18n.t("Level"), i18n.t("State"), i18n.t("From"), i18n.t("To"), i18n.t("By"), ""]}>
              {all.map((one) => (
                <tr key={one.id}>
                  <td className={css.text}>{one.text}</td>
                  <td>{levelName(one.level)}</td>
                  <td>{stateName(one.state)}</td>
                  <td><When ms={one.fromTime} /></td>
                  <td>{one.toTime ? <When ms={one.toTime} /> : i18n.t("until removed")}</td>
                  <td>{one.by}</td>
                  <td>{isAdmin && <Button size="compact-xs" variant="default" aria-label={i18n.t("Remove the announcement: {text}", { text: one.text.slice(0, 60) })} onClick={() => setRemoved(one)}>{i18n.t("Remove")}</Button>}</td>
                </tr>
              ))}
            </Table>
          ) : <Note icon="announcement" title={i18n.t("No announcements")}>{isAdmin && i18n.t("Tell all users what they should know, such as when the cluster is upgraded.")}</Note>}
        </Loaded>
      </Card>
      {isNew && <NewAnnouncement onClose={() => setIsNew(false)} onDone={() => void changed()} />}
      {removed && (
        <Ask title={i18n.t("Remove the announcement?")} verb={i18n.t("Remove")} command={["announcement", "remove", removed.id]} onClose={() => setRemoved(null)}
          act={async () => {
            await answer(http.DELETE("/api/v2/announcements/{id}", { params: { path: { id: removed.id } } }));
            await changed();
          }}>
          <p className={css.text}>{removed.text}</p>
        </Ask>
      )}
    </Page>
  );
}
