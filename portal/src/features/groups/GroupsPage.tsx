// Groups: what each grants, and who is in it.
import { i18n } from "@lingui/core";
import { Button, Drawer, Modal } from "@mantine/core";
import { useState } from "react";
import { answer, http } from "@/api/client";
import { useMe } from "@/api/session";
import { useAddress } from "@/ui/address";
import { Ask } from "@/ui/Ask";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { GroupForm } from "./GroupForm";
import css from "./GroupsPage.module.css";
import { useChanged, useGroups, useMembers, type Group } from "./queries";

export default function GroupsPage() {
  const me = useMe().data;
  const [query, change] = useAddress();
  const [isNew, setIsNew] = useState(false);
  const groups = useGroups();
  const chosen = groups.data?.find((group) => group.groupname === query["group"]);
  return (
    <Page title={i18n.t("Groups")} lead={i18n.t("Users may do what one of their groups grants.")} actions={
      <>
        <CopyCommand words={["group", "list"]} />
        {me?.admin && <Button size="xs" leftSection={<Icon name="submit" size={15} />} onClick={() => setIsNew(true)}>{i18n.t("New group")}</Button>}
      </>
    }>
      <Card flush>
        <Loaded query={groups} rows={6}>
          {(all) => all.length ? (
            <Table label={i18n.t("Groups")} heads={[i18n.t("Name"), i18n.t("Virtual clusters"), i18n.t("Manages"), i18n.t("Storages"), i18n.t("At the provider")]}>
              {all.map((group) => <Row key={group.groupname} group={group} open={() => change({ group: group.groupname }, { push: true })} />)}
            </Table>
          ) : <Note icon="users" title={i18n.t("There are no groups yet.")} />}
        </Loaded>
      </Card>
      <Drawer opened={Boolean(chosen)} onClose={() => change({ group: "" })} position="right" size={480} title={query["group"]} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
        {chosen && <One key={chosen.groupname} group={chosen} isAdmin={Boolean(me?.admin)} close={() => change({ group: "" })} />}
      </Drawer>
      {isNew && (
        <Modal opened onClose={() => setIsNew(false)} title={i18n.t("New group")} closeOnClickOutside={false} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
          <GroupForm onDone={() => setIsNew(false)} />
        </Modal>
      )}
    </Page>
  );
}

function Row({ group, open }: { group: Group; open: () => void }) {
  const acls = group.extension.acls;
  return (
    <tr>
      <td>
        <button type="button" className={css.name} onClick={open}>{group.groupname}</button>
        {acls.admin && <span className={css.tag}>{i18n.t("administrators")}</span>}
        {group.description && <div className={css.dim}>{group.description}</div>}
      </td>
      <td>{acls.admin ? i18n.t("all") : acls.virtualClusters.join(", ") || "–"}</td>
      <td>{acls.managedVirtualClusters.join(", ") || "–"}</td>
      <td>{acls.storageConfigs.join(", ") || "–"}</td>
      <td>{group.externalName || "–"}</td>
    </tr>
  );
}

function One({ group, isAdmin, close }: { group: Group; isAdmin: boolean; close: () => void }) {
  const [isAsked, setIsAsked] = useState(false);
  const changed = useChanged();
  const { groupname } = group;
  const acls = group.extension.acls;
  if (!isAdmin)
    return (
      <div className={css.form}>
        <p>{group.description}</p>
        <p className={css.dim}>{i18n.t("Virtual clusters")}: {acls.virtualClusters.join(", ") || "–"} · {i18n.t("Storages")}: {acls.storageConfigs.join(", ") || "–"}</p>
        <p className={css.dim}>{i18n.t("Administrators change groups and see who is in them.")}</p>
      </div>
    );
  const remove = async () => {
    await answer(http.DELETE("/api/v2/groups/{groupname}", { params: { path: { groupname } } }));
    close();
    await changed();
  };
  return (
    <div className={css.form}>
      <GroupForm group={group} onDone={close} />
      <Members groupname={groupname} />
      <div className={css.line}><span /><Button size="xs" color="red" variant="light" onClick={() => setIsAsked(true)}>{i18n.t("Remove the group")}</Button></div>
      {isAsked && (
        <Ask title={i18n.t("Remove {name}?", { name: groupname })} verb={i18n.t("Remove")} command={["group", "remove", groupname]} onClose={() => setIsAsked(false)} act={remove}>
          <p>{i18n.t("Its members keep their accounts and lose what it granted.")}</p>
        </Ask>
      )}
    </div>
  );
}

function Members({ groupname }: { groupname: string }) {
  return (
    <section aria-label={i18n.t("Members")}>
      <Loaded query={useMembers(groupname)}>
        {(members) => (
          <>
            <p className={css.dim}>{i18n.t("{count, plural, =0 {no members} one {# member} other {# members}}", { count: members.length })}</p>
            <ul className={css.members}>{members.slice(0, 200).map((member) => <li key={member.username}><Link to="/users" query={{ user: member.username }}>{member.username}</Link></li>)}</ul>
          </>
        )}
      </Loaded>
    </section>
  );
}
