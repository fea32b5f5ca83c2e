// The groups that a user is in; what a group grants is beside its name.
import { i18n } from "@lingui/core";
import { Checkbox } from "@mantine/core";
import { useGroups, type Group } from "./queries";
import css from "./UsersPage.module.css";

function grants(group: Group): string {
  const { virtualClusters, admin } = group.extension.acls;
  return admin ? i18n.t("everything") : virtualClusters.join(", ");
}

export function GroupChoice({ chosen, choose }: { chosen: readonly string[]; choose: (groups: string[]) => void }) {
  const groups = useGroups().data ?? [];
  return (
    <fieldset className={css.choices}>
      <legend>{i18n.t("Groups")}</legend>
      {groups.map((group) => (
        <Checkbox key={group.groupname} label={grants(group) ? `${group.groupname} (${grants(group)})` : group.groupname} checked={chosen.includes(group.groupname)}
          onChange={(event) => choose(event.target.checked ? [...chosen, group.groupname] : chosen.filter((one) => one !== group.groupname))} />
      ))}
      {!groups.length && <span className={css.dim}>{i18n.t("There are no groups yet.")}</span>}
    </fieldset>
  );
}
