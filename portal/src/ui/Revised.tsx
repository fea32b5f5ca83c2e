// The form of a rule that administrators change while the platform runs: its text, a trial, a reason, and its history.
import { i18n } from "@lingui/core";
import { Button, TextInput } from "@mantine/core";
import { useMutation, type UseQueryResult } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { ApiError } from "@/api/client";
import { later } from "@/api/parts";
import { Ask } from "./Ask";
import { CopyCommand } from "./Copy";
import { Loaded } from "./Loaded";
import { Part } from "./Part";
import { notify } from "./notices";
import css from "./Revised.module.css";
import { Ago } from "./time";

const Editor = later(() => import("./Editor"));

export interface Edit {
  name: string;
  text: string;
  reason: string;
  /** Save it although somebody else changed it, or what it takes from others. */
  isForced: boolean;
}

interface Change {
  revision: number;
  time: number;
  user: string;
  action: string;
  reason: string;
}

interface RevisedProps {
  /** The same as commands; what is edited is in a file there. */
  commands: { show: string[]; revert: string[]; edit: string[] };
  label: string;
  name: string;
  text: string;
  origin: "bundled" | "changed" | "disabled" | "added" | "new";
  mayChange: boolean;
  /** What holds once the changes are removed. */
  afterwards: string;
  /** Whether the name is in the text. */
  isNamedInside?: boolean;
  trial: (edit: Pick<Edit, "name" | "text">) => ReactNode;
  history: UseQueryResult<readonly Change[], Error>;
  save: (edit: Edit) => Promise<unknown>;
  revert: (reason: string) => Promise<unknown>;
  changed: () => Promise<unknown>;
  close: () => void;
}

export function Revised(props: RevisedProps) {
  const { commands, label, origin, mayChange, isNamedInside, trial, changed, close } = props;
  const [name, setName] = useState(props.name);
  const [text, setText] = useState(props.text);
  const [reason, setReason] = useState("");
  const [isAsked, setIsAsked] = useState(false);
  const save = useMutation({
    mutationFn: (isForced: boolean) => props.save({ name, text, reason, isForced }),
    onSuccess: () => {
      notify(i18n.t("{name} is changed", { name: name || label }));
      close();
    },
    onSettled: changed,
  });
  const revert = async () => {
    await props.revert(reason);
    close();
    await changed();
  };
  return (
    <div className={css.form}>
      {origin === "new" && !isNamedInside && <TextInput label={i18n.t("Name")} data-autofocus value={name} onChange={(event) => setName(event.target.value)} />}
      <div className={css.editor}>
        <Part>
          <Editor value={text} onChange={setText} marks={[]} label={label} />
        </Part>
      </div>
      {mayChange && (
        <>
          {trial({ name, text })}
          <TextInput label={i18n.t("Reason")} description={i18n.t("Kept in the history")} value={reason} onChange={(event) => setReason(event.target.value)} />
          <Refusal error={save.error}>
            {save.error instanceof ApiError && save.error.status === 409 && <Button size="compact-xs" variant="default" onClick={() => save.mutate(true)}>{i18n.t("Save it all the same")}</Button>}
          </Refusal>
        </>
      )}
      <div className={css.line}>
        <CopyCommand words={text === props.text ? commands.show : [...commands.edit, ...(reason ? ["--reason", reason] : [])]} />
        {mayChange && (
          <span>
            {origin !== "new" && origin !== "bundled" && <Button size="sm" variant="default" mr={8} onClick={() => setIsAsked(true)}>{origin === "added" ? i18n.t("Remove") : i18n.t("Revert")}</Button>}
            <Button size="sm" loading={save.isPending} onClick={() => save.mutate(false)}>{i18n.t("Save")}</Button>
          </span>
        )}
      </div>
      {origin !== "new" && mayChange && <History query={props.history} />}
      {isAsked && (
        <Ask title={i18n.t("Remove the changes of {name}?", { name })} verb={i18n.t("Remove")} command={commands.revert} onClose={() => setIsAsked(false)} act={revert}>
          <p>{props.afterwards}</p>
        </Ask>
      )}
    </div>
  );
}

/** Shows what the server, or the reader of a text, says against it. */
export function Refusal({ error, children }: { error: Error | null; children?: ReactNode }) {
  if (!error) return null;
  const advice = error instanceof ApiError && error.advice ? `; ${error.advice}` : "";
  return <div role="alert" className={css.bad}>{error.message}{advice}{children}</div>;
}

function History({ query }: { query: UseQueryResult<readonly Change[], Error> }) {
  return (
    <section aria-label={i18n.t("History")}>
      <Loaded query={query} rows={2}>
        {(changes) => changes.length ? (
          <ol className={css.history}>
            {changes.map((one) => <li key={one.revision} className={css.dim}><Ago ms={one.time} /> · {one.user} · {one.action}{one.reason && ` · ${one.reason}`}</li>)}
          </ol>
        ) : <p className={css.dim}>{i18n.t("It was never changed.")}</p>}
      </Loaded>
    </section>
  );
}
