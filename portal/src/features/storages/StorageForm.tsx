// A new storage, or a change of one: where its data is, its credentials, and which groups may use it.
import { i18n } from "@lingui/core";
import { Button, Checkbox, NativeSelect, PasswordInput, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { ApiError } from "@/api/client";
import { Choices } from "@/ui/Choices";
import { CopyCommand } from "@/ui/Copy";
import { notify, notifyError } from "@/ui/notices";
import { saveStorage, useGroupNames } from "./admin";
import { commandOf, dataOf, faultsOf, fieldsOf, KIND_NAMES, kindName, label, valuesOf, type Detail, type Draft, type Field } from "./kinds";
import css from "./StoragesPage.module.css";

const NEW: Draft = { name: "", kind: "nfs", values: {}, description: "", readOnly: false, share: true, groups: [] };

function draftOf(of: Detail): Draft {
  return { name: of.name, kind: of.kind, values: valuesOf(of.data), description: of.description, readOnly: of.readOnly, share: of.share, groups: of.groups ?? [] };
}

interface StorageFormProps {
  storage?: Detail;
  onSaved: (name: string) => Promise<unknown>;
}

export function StorageForm({ storage, onSaved }: StorageFormProps) {
  const [draft, setDraft] = useState(storage ? draftOf(storage) : NEW);
  const [faults, setFaults] = useState<Record<string, string>>({});
  const groups = useGroupNames().data ?? [];
  const set = (changed: Partial<Draft>) => setDraft({ ...draft, ...changed });
  const save = useMutation({
    mutationFn: () => saveStorage({ ...draft, values: dataOf(draft.kind, draft.values) }, storage),
    onMutate: () => setFaults({}),
    onSuccess: async () => {
      notify(i18n.t("Storage {name} is saved", { name: draft.name }));
      // Credentials stay nowhere in this page.
      set({ values: Object.fromEntries(Object.entries(draft.values).filter(([key]) => fieldsOf(draft.kind).find((field) => field.key === key)?.type !== "secret")) });
      await onSaved(draft.name);
    },
    onError: (error) => (error instanceof ApiError && error.status < 500 && error.status ? setFaults(faultsOf(error)) : notifyError(error)),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <form className={css.form} onSubmit={submit} autoComplete="off">
      {!storage && <TextInput label={i18n.t("Name")} required withAsterisk={false} data-autofocus value={draft.name} error={faults["name"]} onChange={(event) => set({ name: event.target.value })} />}
      <NativeSelect label={i18n.t("Kind")} disabled={Boolean(storage)} value={draft.kind} error={faults["type"]} data={KIND_NAMES.map((kind) => ({ value: kind, label: kindName(kind) }))} onChange={(event) => set({ kind: event.target.value })} />
      {fieldsOf(draft.kind).map((field) => (
        <FieldInput key={field.key} field={field} isKept={Boolean(storage?.hasCredentials)} value={draft.values[field.key] ?? ""} error={faults[field.key]} onChange={(value) => set({ values: { ...draft.values, [field.key]: value } })} />
      ))}
      <TextInput label={i18n.t("Description")} value={draft.description} error={faults["description"]} onChange={(event) => set({ description: event.target.value })} />
      <Checkbox label={i18n.t("Users may only read it")} checked={draft.readOnly} onChange={(event) => set({ readOnly: event.target.checked })} />
      <Checkbox label={i18n.t("Each user sees only a folder of their own")} checked={!draft.share} onChange={(event) => set({ share: !event.target.checked })} />
      <Choices label={i18n.t("Groups that may use it")} all={groups} chosen={draft.groups} choose={(chosen) => set({ groups: chosen })} />
      {faults[""] && <p className={css.fault} role="alert">{faults[""]}</p>}
      <div className={css.line}><CopyCommand words={commandOf(draft, !storage)} /><Button type="submit" loading={save.isPending}>{i18n.t("Save")}</Button></div>
    </form>
  );
}

interface FieldInputProps {
  field: Field;
  /** Whether the server has credentials, which an empty field keeps. */
  isKept: boolean;
  value: string;
  error?: string;
  onChange: (value: string) => void;
}

function FieldInput({ field, isKept, value, error, onChange }: FieldInputProps) {
  const name = label(field.key);
  const given = { label: name, error, value, onChange: (event: { target: { value: string } }) => onChange(event.target.value) };
  if (field.type === "switch") return <Checkbox label={name} error={error} checked={value === "true"} onChange={(event) => onChange(String(event.target.checked))} />;
  if (field.type === "secret") return <PasswordInput {...given} autoComplete="new-password" description={i18n.t("It is encrypted and never shown again.")} placeholder={isKept ? i18n.t("kept as it is") : ""} visibilityToggleButtonProps={{ "aria-label": i18n.t("Show {name}", { name }) }} />;
  return <TextInput {...given} required={field.isRequired} withAsterisk={field.isRequired} placeholder={field.otherwise} inputMode={field.type === "number" ? "numeric" : undefined} />;
}
