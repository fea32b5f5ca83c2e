// The fields of a job that most people change. Each writes into the file, whose comments and other keys stay.
import { i18n } from "@lingui/core";
import { NumberInput, TextInput, Textarea } from "@mantine/core";
import { useMemo } from "react";
import { type Document, isMap, isScalar, parseDocument } from "yaml";
import { useVirtualClusters } from "@/api/cluster";
import { useMe } from "@/api/session";
import css from "./SubmitPage.module.css";

type Path = (string | number)[];

/** Returns the name of the first task role. */
function roleOf(document: Document): string {
  const roles = document.get("taskRoles");
  const first = isMap(roles) ? roles.items[0]?.key : undefined;
  return isScalar(first) ? String(first.value) : "";
}

export function Form({ text, setText }: { text: string; setText: (text: string) => void }) {
  const document = useMemo(() => parseDocument(text), [text]);
  const me = useMe().data;
  const vcs = Object.keys(useVirtualClusters().data ?? {}).filter((vc) => me?.admin || me?.virtualCluster.includes(vc)).sort();
  const role = roleOf(document);
  if (document.errors.length || !role)
    return <p className={css.dim}>{i18n.t("The form shows the file once it is YAML with a task role; correct the file beside it.")}</p>;
  const read = (path: Path): string => {
    const value = document.getIn(path);
    return value === undefined || value === null || typeof value === "object" ? "" : String(value);
  };
  const write = (path: Path, value: unknown) => {
    const changed = parseDocument(text);
    changed.setIn(path, value);
    setText(changed.toString({ lineWidth: 0 }));
  };
  const at = ["taskRoles", role];
  const number = (path: Path, label: string, min: number) => (
    <NumberInput label={label} min={min} value={read(path) === "" ? "" : Number(read(path))} allowDecimal={false} hideControls
      onChange={(value) => value !== "" && write(path, Number(value))} />
  );
  const commands = document.getIn([...at, "commands"]);
  const lines = commands && typeof commands === "object" && "items" in commands ? (commands.items as { value?: unknown }[]).map((item) => String(item.value ?? "")) : [];
  const vc = read(["defaults", "virtualCluster"]) || "default";
  return (
    <div className={css.form}>
      <TextInput label={i18n.t("Name")} value={read(["name"])} onChange={(event) => write(["name"], event.target.value)} />
      <label className={css.label}>
        <span>{i18n.t("Virtual cluster")}</span>
        <select className={css.choice} value={vc} onChange={(event) => write(["defaults", "virtualCluster"], event.target.value)}>
          {[...new Set([...vcs, vc])].map((one) => <option key={one}>{one}</option>)}
        </select>
      </label>
      <TextInput label={i18n.t("Image")} value={read(["prerequisites", 0, "uri"])} onChange={(event) => write(["prerequisites", 0, "uri"], event.target.value)} />
      {number([...at, "instances"], i18n.t("Tasks of role {role}", { role }), 1)}
      <div className={css.three}>
        {number([...at, "resourcePerInstance", "gpu"], i18n.t("GPUs"), 0)}
        {number([...at, "resourcePerInstance", "cpu"], i18n.t("CPUs"), 1)}
        {number([...at, "resourcePerInstance", "memoryMB"], i18n.t("Memory, MB"), 1)}
      </div>
      <Textarea label={i18n.t("Commands")} autosize minRows={3} maxRows={12} value={lines.join("\n")} onChange={(event) => write([...at, "commands"], event.target.value.split("\n"))} spellCheck={false} />
    </div>
  );
}
