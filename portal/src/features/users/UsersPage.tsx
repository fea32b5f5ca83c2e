// The accounts of the platform: find one, add some, change what they may do.
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
import { Import } from "./Import";
import { NewUser } from "./NewUser";
import { OneUser } from "./OneUser";
import { isFull, useUsers, type User } from "./queries";
import css from "./UsersPage.module.css";

const SHOWN_MAX = 500;

export default function UsersPage() {
  const me = useMe().data;
  const [query, change] = useAddress();
  const [asked, setAsked] = useState<"new" | "import" | null>(null);
  const users = useUsers();
  if (!me?.admin)
    return <Page title={i18n.t("Users")}><Card><Note icon="lock" title={i18n.t("You may not see this")}>{i18n.t("Administrators manage the accounts.")}</Note></Card></Page>;
  const word = (query["q"] ?? "").toLowerCase();
  const chosen = users.data?.find((user) => user.username === query["user"]);
  return (
    <Page title={i18n.t("Users")} actions={
      <>
        <CopyCommand words={["user", "list"]} />
        <Button size="xs" variant="default" leftSection={<Icon name="up" size={15} />} onClick={() => setAsked("import")}>{i18n.t("Import CSV")}</Button>
        <Button size="xs" leftSection={<Icon name="submit" size={15} />} onClick={() => setAsked("new")}>{i18n.t("New user")}</Button>
      </>
    }>
      <Card flush>
        <Loaded query={users} rows={8}>
          {(all) => {
            const found = all.filter(isFull).filter((user) => `${user.username} ${user.email} ${user.grouplist.join(" ")}`.toLowerCase().includes(word));
            return (
              <>
                <div className={css.bar}>
                  <TextInput size="xs" leftSection={<Icon name="search" size={15} />} aria-label={i18n.t("Search by name, e-mail or group")} placeholder={i18n.t("Search by name, e-mail or group")} value={query["q"] ?? ""} onChange={(event) => change({ q: event.target.value })} />
                  <span className={css.dim} role="status">{i18n.t("{count, plural, one {# user} other {# users}}", { count: found.length })}</span>
                </div>
                <Table label={i18n.t("Users")} heads={[i18n.t("Name"), i18n.t("E-mail"), i18n.t("Groups"), i18n.t("Virtual clusters"), i18n.t("Account of"), i18n.t("Since")]}>
                  {found.slice(0, SHOWN_MAX).map((user) => <Row key={user.username} user={user} open={() => change({ user: user.username }, { push: true })} />)}
                </Table>
                {found.length > SHOWN_MAX && <p className={css.bar}>{i18n.t("The first {count} are shown; search to see others.", { count: SHOWN_MAX })}</p>}
              </>
            );
          }}
        </Loaded>
      </Card>
      <Drawer opened={Boolean(chosen)} onClose={() => change({ user: "" })} position="right" size={460} title={query["user"]} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
        {chosen && isFull(chosen) && <OneUser key={chosen.username} user={chosen} isMe={chosen.username === me.username} onGone={() => change({ user: "" })} />}
      </Drawer>
      {asked === "new" && <NewUser onClose={() => setAsked(null)} />}
      {asked === "import" && <Import onClose={() => setAsked(null)} />}
    </Page>
  );
}

function Row({ user, open }: { user: User; open: () => void }) {
  return (
    <tr>
      <td>
        <button type="button" className={css.name} onClick={open}>{user.username}</button>
        {user.admin && <span className={css.tag}>{i18n.t("administrator")}</span>}
        {user.viewer && <span className={css.tag}>{i18n.t("viewer")}</span>}
      </td>
      <td>{user.email || "–"}</td>
      <td>{user.grouplist.join(", ") || "–"}</td>
      <td>{user.admin ? i18n.t("all") : user.virtualCluster.join(", ") || "–"}</td>
      <td>{user.source === "local" ? i18n.t("this platform") : user.source}</td>
      <td><Ago ms={user.createdTime} /></td>
    </tr>
  );
}
