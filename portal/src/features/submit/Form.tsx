// The fields of a job that most people change. Each writes into the file, whose comments and other keys stay.
import { i18n } from "@lingui/core";
import { TextInput, Textarea } from "@mantine/core";
import { useMemo, useState } from "react";
import { parseDocument, type Document } from "yaml";
import type { Fault } from "@/api/client";
import { Card } from "@/ui/Page";
import { Code } from "./Code";
import { faultAt, textAt, type Fields, type Path } from "./fields";
import { Hardware } from "./Hardware";
import { commandsIn, commandsOfLines, linesOf, roleOf, writeCommands } from "./launching";
import { Launching } from "./Launching";
import css from "./SubmitPage.module.css";
import { Tools } from "./Tools";
import type { CodeState } from "./useCode";
import { useOwnVirtualClusters } from "./useCompletion";

interface FormProps {
  text: string;
  setText: (text: string) => void;
  faults: readonly Fault[];
  code: CodeState;
}

export function Form({ text, setText, faults, code }: FormProps) {
  const document = useMemo(() => parseDocument(text), [text]);
  const role = roleOf(document);
  if (document.errors.length || !role)
    return <Card title={i18n.t("Form")}><p className={css.dim}>{i18n.t("The form shows the file once it is YAML with a task role; correct the file beside it.")}</p></Card>;
  const edit = (change: (document: Document) => void) => {
    const changed = parseDocument(text);
    change(changed);
    setText(changed.toString({ lineWidth: 0 }));
  };
  const fields: Fields = { document, role, at: ["taskRoles", role], edit, faults };
  return (
    <>
      <Card title={i18n.t("Job")}><Basics fields={fields} /></Card>
      <Card title={i18n.t("Hardware")}><Hardware fields={fields} /></Card>
      <Card title={i18n.t("Program")}>
        <div className={css.form}>
          <Launching fields={fields} />
          <Commands fields={fields} />
          <Code fields={fields} code={code} />
        </div>
      </Card>
      <Card title={i18n.t("Data and tools")}><Tools fields={fields} /></Card>
    </>
  );
}

function Basics({ fields }: { fields: Fields }) {
  const vcs = useOwnVirtualClusters();
  const vc = textAt(fields, ["defaults", "virtualCluster"]) || "default";
  return (
    <div className={css.form}>
      <Text fields={fields} path={["name"]} label={i18n.t("Name")} />
      <label className={css.label}>
        <span>{i18n.t("Virtual cluster")}</span>
        <select className={css.choice} value={vc} onChange={(event) => fields.edit((document) => document.setIn(["defaults", "virtualCluster"], event.target.value))}>
          {[...new Set([...vcs, vc])].map((one) => <option key={one}>{one}</option>)}
        </select>
      </label>
      <Text fields={fields} path={["prerequisites", 0, "uri"]} label={i18n.t("Image")} />
    </div>
  );
}

function Text({ fields, path, label }: { fields: Fields; path: Path; label: string }) {
  return <TextInput label={label} value={textAt(fields, path)} error={faultAt(fields, path)} onChange={(event) => fields.edit((document) => document.setIn(path, event.target.value))} />;
}

function Commands({ fields }: { fields: Fields }) {
  const { document, role, at, edit } = fields;
  const [typed, setTyped] = useState("");
  const commands = commandsIn(document, role);
  // What is typed stays as it is while the file has the same commands: the next letter may follow a space.
  const value = isEqual(commandsOfLines(typed), commands) ? typed : linesOf(commands);
  const write = (text: string) => {
    setTyped(text);
    edit((changed) => writeCommands(changed, role, commandsOfLines(text)));
  };
  return (
    <Textarea label={i18n.t("Commands")} autosize minRows={3} maxRows={12} value={value} error={faultAt(fields, [...at, "commands"])}
      onChange={(event) => write(event.target.value)} spellCheck={false} />
  );
}

function isEqual(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((text, index) => text === other[index]);
}
