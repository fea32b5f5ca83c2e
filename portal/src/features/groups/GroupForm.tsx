// What a group grants to its members; a new group, or a change of one.
import { i18n } from "@lingui/core";
import { Button, Checkbox, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answer, http } from "@/api/client";
import { useVirtualClusters } from "@/api/cluster";
import { Choices } from "@/ui/Choices";
import { CopyCommand } from "@/ui/Copy";
import { notify, notifyError } from "@/ui/notices";
import css from "./GroupsPage.module.css";
import { useChanged, useStorageNames, type Group } from "./queries";

type Acls = Group["extension"]["acls"];
const NOTHING: Acls = { admin: false, virtualClusters: [], managedVirtualClusters: [], storageConfigs: [] };

/** Returns the command that does what the form does. */
export function commandOf(name: string, acls: Acls, isNew: boolean): string[] {
  const named = (option: string, names: readonly string[]) => names.flatMap((one) => [option, one]);
  return ["group", isNew ? "add" : "set", name || "NAME", ...named("--vc", acls.virtualClusters), ...named("--manage", acls.managedVirtualClusters), ...named("--storage", acls.storageConfigs)];
}

export function GroupForm({ group, onDone }: { group?: Group; onDone: () => void }) {
  const [groupname, setName] = useState(group?.groupname ?? "");
  const [description, setDescription] = useState(group?.description ?? "");
  const [externalName, setExternal] = useState(group?.externalName ?? "");
  const [acls, setAcls] = useState<Acls>(group?.extension.acls ?? NOTHING);
  const clusters = Object.keys(useVirtualClusters().data ?? {}).sort();
  const storages = useStorageNames().data ?? [];
  const changed = useChanged();
  const save = useMutation({
    mutationFn: async () => {
      const extension = { acls: { ...acls } };
      if (group) await answer(http.PUT("/api/v2/groups", { body: { patch: true, data: { groupname, description, externalName, extension } } }));
      else await answer(http.POST("/api/v2/groups", { body: { groupname, description, externalName, extension } }));
    },
    onSuccess: () => {
      notify(i18n.t("Group {name} is saved", { name: groupname }));
      onDone();
    },
    onError: notifyError,
    onSettled: changed,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <form className={css.form} onSubmit={submit}>
      {!group && <TextInput label={i18n.t("Name")} required withAsterisk={false} value={groupname} data-autofocus onChange={(event) => setName(event.target.value)} />}
      <TextInput label={i18n.t("Description")} value={description} onChange={(event) => setDescription(event.target.value)} />
      <Choices label={i18n.t("May use virtual clusters")} all={clusters} chosen={acls.virtualClusters} choose={(virtualClusters) => setAcls({ ...acls, virtualClusters })} />
      <Choices label={i18n.t("Manages virtual clusters")} all={clusters} chosen={acls.managedVirtualClusters} choose={(managedVirtualClusters) => setAcls({ ...acls, managedVirtualClusters })} />
      <Choices label={i18n.t("May use storages")} all={storages} chosen={acls.storageConfigs} choose={(storageConfigs) => setAcls({ ...acls, storageConfigs })} />
      <Checkbox label={i18n.t("Its members are administrators of the platform")} checked={acls.admin} onChange={(event) => setAcls({ ...acls, admin: event.target.checked })} />
      <TextInput label={i18n.t("Name at the identity provider")} value={externalName} onChange={(event) => setExternal(event.target.value)} />
      <div className={css.line}><CopyCommand words={commandOf(groupname, acls, !group)} /><Button type="submit" loading={save.isPending}>{i18n.t("Save")}</Button></div>
    </form>
  );
}
