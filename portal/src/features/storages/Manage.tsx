// One storage for administrators: its definition, whether it works, and its removal.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useAddress } from "@/ui/address";
import { Ask } from "@/ui/Ask";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded } from "@/ui/Loaded";
import { notifyError } from "@/ui/notices";
import { removeStorage, testStorage, useDetail } from "./admin";
import { StorageForm } from "./StorageForm";
import css from "./StoragesPage.module.css";

/** Returns what asks again everything that a changed storage may have changed. */
export function useChangedStorages() {
  const queries = useQueryClient();
  return (name: string) => Promise.all(["storages", "groups"].map((noun) => queries.invalidateQueries({ queryKey: [noun] })).concat(queries.invalidateQueries({ queryKey: ["files", name] })));
}

export function Manage({ name }: { name: string }) {
  const [, change] = useAddress();
  const [isAsked, setIsAsked] = useState(false);
  const changed = useChangedStorages();
  const remove = async () => {
    await removeStorage(name);
    change({ manage: "", storage: "" });
    await changed(name);
  };
  return (
    <div className={css.form}>
      <Loaded query={useDetail(name)} rows={6}>{(storage) => <StorageForm key={name} storage={storage} onSaved={changed} />}</Loaded>
      <Tried name={name} />
      <div className={css.line}><span /><Button size="xs" color="red" variant="light" onClick={() => setIsAsked(true)}>{i18n.t("Remove the storage")}</Button></div>
      {isAsked && (
        <Ask title={i18n.t("Remove {name}?", { name })} verb={i18n.t("Remove")} command={["storage", "remove", name]} onClose={() => setIsAsked(false)} act={remove}>
          <p>{i18n.t("Its grants go; the data in it stays where it is.")}</p>
        </Ask>
      )}
    </div>
  );
}

/** Has the server connect to the storage and try it, step by step. */
function Tried({ name }: { name: string }) {
  const test = useMutation({ mutationFn: () => testStorage(name), onError: notifyError });
  return (
    <section aria-label={i18n.t("Test")} className={css.form}>
      <div className={css.line}>
        <Button size="xs" variant="default" loading={test.isPending} onClick={() => test.mutate()}>{i18n.t("Test the storage")}</Button>
        <CopyCommand isSmall words={["storage", "test", name]} />
      </div>
      {test.data && (
        <ul className={css.steps} aria-live="polite">
          {test.data.steps.map((one) => (
            <li key={one.step} data-ok={one.ok}><Icon name={one.ok ? "check" : "fail"} size={16} /><span><strong>{one.step}</strong> {one.ok ? "" : i18n.t("fails")}{one.message && <small>{one.message}</small>}</span></li>
          ))}
        </ul>
      )}
    </section>
  );
}
