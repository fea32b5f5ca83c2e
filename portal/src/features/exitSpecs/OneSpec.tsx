// One exit spec: its text, a trial of an edit on a log and on past failures, and its history.
import { i18n } from "@lingui/core";
import { Button, NumberInput, Textarea, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { ApiError, answer, http } from "@/api/client";
import { Ask } from "@/ui/Ask";
import { CopyCommand } from "@/ui/Copy";
import { Link } from "@/ui/Link";
import { Loaded } from "@/ui/Loaded";
import { notify } from "@/ui/notices";
import { Ago } from "@/ui/time";
import css from "./ExitSpecsPage.module.css";
import { read, useChanged, useHistory, written, type Detail, type Test } from "./queries";

const Editor = lazy(() => import("@/ui/Editor"));
const NEW = { summary: "", domain: "platform", retry: "helps", advice: [""], rules: [{ role: "root", where: "line", patterns: [""], samples: [""] }] };

interface OneSpecProps {
  detail?: Detail;
  isAdmin: boolean;
  close: () => void;
}

export function OneSpec({ detail, isAdmin, close }: OneSpecProps) {
  const [name, setName] = useState(detail?.name ?? "");
  const [text, setText] = useState(() => written(detail?.spec ?? NEW));
  const [reason, setReason] = useState("");
  const [isAsked, setIsAsked] = useState(false);
  const changed = useChanged();
  const save = useMutation({
    mutationFn: (isForced: boolean) => answer(http.PUT("/api/v2/exit-specs/{name}", { params: { path: { name } }, body: { spec: read(text), reason, force: isForced } })),
    onSuccess: () => {
      notify(i18n.t("{name} is changed", { name }));
      close();
    },
    onSettled: changed,
  });
  const revert = async () => {
    await answer(http.DELETE("/api/v2/exit-specs/{name}", { params: { path: { name }, query: { reason } } }));
    close();
    await changed();
  };
  return (
    <div className={css.form}>
      {!detail && <TextInput label={i18n.t("Name")} data-autofocus value={name} onChange={(event) => setName(event.target.value)} />}
      <div className={css.editor}>
        <Suspense fallback={<div className={css.dim} role="status" aria-busy="true">{i18n.t("Loading")}</div>}>
          <Editor value={text} onChange={setText} marks={[]} label={i18n.t("Exit spec")} />
        </Suspense>
      </div>
      {isAdmin && (
        <>
          <Trial name={name} text={text} />
          <TextInput label={i18n.t("Reason")} description={i18n.t("Kept in the history")} value={reason} onChange={(event) => setReason(event.target.value)} />
          {save.error && (
            <div role="alert" className={css.bad}>
              {save.error.message}{save.error instanceof ApiError && save.error.advice && `; ${save.error.advice}`}
              {save.error instanceof ApiError && save.error.status === 409 && <Button size="compact-xs" variant="default" onClick={() => save.mutate(true)}>{i18n.t("Save it all the same")}</Button>}
            </div>
          )}
        </>
      )}
      <div className={css.line}>
        <CopyCommand words={["exit-spec", "show", name || "NAME"]} />
        {isAdmin && (
          <span>
            {detail && detail.origin !== "bundled" && <Button size="sm" variant="default" mr={8} onClick={() => setIsAsked(true)}>{detail.origin === "added" ? i18n.t("Remove") : i18n.t("Revert")}</Button>}
            <Button size="sm" loading={save.isPending} onClick={() => save.mutate(false)}>{i18n.t("Save")}</Button>
          </span>
        )}
      </div>
      {detail && isAdmin && <History name={name} />}
      {isAsked && (
        <Ask title={i18n.t("Remove the changes of {name}?", { name })} verb={i18n.t("Remove")} command={["exit-spec", "revert", name]} onClose={() => setIsAsked(false)} act={revert}>
          <p>{detail?.bundled ? i18n.t("The bundled exit spec holds again, from the next failure on.") : i18n.t("Failures are not given this cause any more.")}</p>
        </Ask>
      )}
    </div>
  );
}

/** Tries an edit: what it finds in a text, and which past failures it would give another cause. */
function Trial({ name, text }: { name: string; text: string }) {
  const [log, setLog] = useState("");
  const [jobs, setJobs] = useState(100);
  const test = useMutation({
    mutationFn: () => answer(http.POST("/api/v2/exit-specs/test", { body: { name, spec: read(text), text: log, exitCode: 1, jobs } })) as Promise<Test>,
  });
  return (
    <>
      <Textarea label={i18n.t("Try it on the end of a log")} autosize minRows={2} maxRows={8} value={log} onChange={(event) => setLog(event.target.value)} spellCheck={false} />
      <div className={css.line}>
        <NumberInput size="xs" label={i18n.t("Newest failed jobs to compare")} min={0} max={500} value={jobs} onChange={(value) => setJobs(Number(value))} hideControls />
        <Button size="xs" variant="default" loading={test.isPending} onClick={() => test.mutate()}>{i18n.t("Test")}</Button>
      </div>
      {test.error && <div role="alert" className={css.bad}>{test.error.message}{test.error instanceof ApiError && test.error.advice && `; ${test.error.advice}`}</div>}
      {test.data && <Result test={test.data} />}
    </>
  );
}

function Result({ test }: { test: Test }) {
  const named = (cause: { name: string } | null | undefined) => cause?.name ?? i18n.t("unknown");
  return (
    <div className={css.result} role="status">
      {test.finding && <p>{i18n.t("In the text: {before} before, {after} after the edit.", { before: named(test.finding.before), after: named(test.finding.after) })}</p>}
      <p>{i18n.t("{changed} of {count, plural, one {# failed job} other {# failed jobs}} would have another cause.", { changed: test.changes.length, count: test.compared })}{test.cut && ` ${i18n.t("Some were left out: their logs are too long.")}`}</p>
      <ul>{test.changes.slice(0, 20).map((one) => <li key={one.job}><Link to={`/jobs/${one.job}`}>{one.job}</Link>: {named(one.before)} → {named(one.after)}</li>)}</ul>
    </div>
  );
}

function History({ name }: { name: string }) {
  return (
    <section aria-label={i18n.t("History")}>
      <Loaded query={useHistory(name, true)} rows={2}>
        {(changes) => changes.length ? (
          <ol className={css.history}>
            {changes.map((one) => <li key={one.revision} className={css.dim}><Ago ms={one.time} /> · {one.user} · {one.action}{one.reason && ` · ${one.reason}`}</li>)}
          </ol>
        ) : <p className={css.dim}>{i18n.t("It was never changed.")}</p>}
      </Loaded>
    </section>
  );
}
