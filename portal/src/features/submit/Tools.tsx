// What a job finds beside its program: storages, a repository, and tools that people open while it runs.
import { i18n } from "@lingui/core";
import { Button, Checkbox, PasswordInput, TextInput } from "@mantine/core";
import { useState } from "react";
import { useStorages } from "@/api/storages";
import { faultAt, type Fields } from "./fields";
import { roleOf } from "./launching";
import css from "./SubmitPage.module.css";
import { applicationIn, pluginIn, secretsIn, storagesIn, writeJupyter, writePlugin, writeSecret, writeStorage } from "./tools";

export function Tools({ fields }: { fields: Fields }) {
  const { document, edit } = fields;
  return (
    <div className={css.form}>
      <Storages fields={fields} />
      <Repository fields={fields} />
      <Tool fields={fields} name="ssh" parameters={{ jobssh: true }} label={i18n.t("SSH between its tasks, and into them with the keys of my profile")} />
      <Tool fields={fields} name="tensorboard" parameters={{ port: 6006, logdir: { logs: "logs" } }} label={i18n.t("TensorBoard of the directory logs")} />
      <Checkbox size="sm" label={i18n.t("JupyterLab beside the program")} checked={applicationIn(document, "lab")}
        onChange={(event) => edit((changed) => writeJupyter(changed, roleOf(changed), event.target.checked))} />
      <Secrets fields={fields} />
    </div>
  );
}

function Storages({ fields }: { fields: Fields }) {
  const all = useStorages().data?.storages ?? [];
  const chosen = storagesIn(fields.document);
  if (!all.length) return <p className={css.dim}>{i18n.t("No storage is granted to you.")}</p>;
  return (
    <fieldset className={css.group}>
      <legend>{i18n.t("Storages")}</legend>
      {all.map((one) => (
        <Checkbox key={one.name} size="sm" label={one.default ? i18n.t("{name} (mounted unless others are named)", { name: one.name }) : one.name} checked={chosen?.includes(one.name) ?? false}
          description={chosen?.includes(one.name) ? `/mnt/${one.name}` : undefined} onChange={(event) => fields.edit((document) => writeStorage(document, one.name, event.target.checked))} />
      ))}
    </fieldset>
  );
}

function Tool({ fields, name, parameters, label }: { fields: Fields; name: string; parameters: Record<string, unknown>; label: string }) {
  return (
    <Checkbox size="sm" label={label} checked={pluginIn(fields.document, name) !== undefined} error={faultAt(fields, ["extras", "com.microsoft.pai.runtimeplugin"])}
      onChange={(event) => fields.edit((document) => writePlugin(document, name, event.target.checked ? parameters : undefined))} />
  );
}

function Repository({ fields }: { fields: Fields }) {
  const git = pluginIn(fields.document, "git")?.parameters;
  const write = (changed: Record<string, string>) => fields.edit((document) => {
    const address = changed["repo_uri"] ?? String(git?.["repo_uri"] ?? "");
    writePlugin(document, "git", address ? changed : undefined);
  });
  return (
    <div className={css.two}>
      <TextInput label={i18n.t("Git repository")} placeholder="https://git.example.com/team/code.git" value={String(git?.["repo_uri"] ?? "")} spellCheck={false}
        onChange={(event) => write({ repo_uri: event.target.value })} />
      <TextInput label={i18n.t("Branch, tag or commit")} value={String(git?.["ref"] ?? "")} disabled={!git} spellCheck={false} onChange={(event) => write({ ref: event.target.value })} />
    </div>
  );
}

/** Secrets by their names; what was written is never shown here again. */
function Secrets({ fields }: { fields: Fields }) {
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const isName = /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name);
  const add = () => {
    fields.edit((document) => writeSecret(document, name, value));
    setName("");
    setValue("");
  };
  return (
    <fieldset className={css.group}>
      <legend>{i18n.t("Secrets")}</legend>
      {secretsIn(fields.document).map((one) => (
        <p key={one} className={css.secret}>
          <code>{`<% $secrets.${one} %>`}</code>
          <Button size="compact-xs" variant="subtle" aria-label={i18n.t("Remove the secret {name}", { name: one })} onClick={() => fields.edit((document) => writeSecret(document, one))}>{i18n.t("Remove")}</Button>
        </p>
      ))}
      <div className={css.two}>
        <TextInput size="xs" label={i18n.t("New secret")} value={name} error={name && !isName ? i18n.t("Letters, digits and _ only") : undefined} onChange={(event) => setName(event.target.value)} autoComplete="off" />
        <PasswordInput size="xs" label={i18n.t("Its value")} value={value} onChange={(event) => setValue(event.target.value)} autoComplete="new-password"
          visibilityToggleButtonProps={{ "aria-label": i18n.t("Show what is typed") }} />
      </div>
      <Button size="xs" variant="default" disabled={!isName || !value} onClick={add}>{i18n.t("Add the secret")}</Button>
      <p className={css.dim}>{i18n.t("Once the job is submitted nobody sees it again; a clone of your own job keeps it.")}</p>
    </fieldset>
  );
}
