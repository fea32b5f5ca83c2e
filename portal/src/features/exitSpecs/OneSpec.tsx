// One exit spec: its text, a trial of an edit on a log and on past failures, and its history.
import { i18n } from "@lingui/core";
import { Button, NumberInput, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { answer, http } from "@/api/client";
import { CopyCommand } from "@/ui/Copy";
import { Link } from "@/ui/Link";
import { Refusal, Revised } from "@/ui/Revised";
import css from "./ExitSpecsPage.module.css";
import { read, useChanged, useHistory, written, type Detail, type Test } from "./queries";

const NEW = { summary: "", domain: "platform", retry: "helps", advice: [""], rules: [{ role: "root", where: "line", patterns: [""], samples: [""] }] };

interface OneSpecProps {
  detail?: Detail;
  isAdmin: boolean;
  close: () => void;
}

export function OneSpec({ detail, isAdmin, close }: OneSpecProps) {
  const name = detail?.name ?? "";
  return (
    <Revised
      commands={{ show: ["exit-spec", "show", name || "NAME"], revert: ["exit-spec", "revert", name], edit: ["exit-spec", "edit", name || "NAME", "--file", "spec.yaml"] }}
      label={i18n.t("Exit spec")}
      name={name}
      text={written(detail?.spec ?? NEW)}
      origin={detail?.origin ?? "new"}
      mayChange={isAdmin}
      afterwards={detail?.bundled ? i18n.t("The bundled exit spec holds again, from the next failure on.") : i18n.t("Failures are not given this cause any more.")}
      trial={(edit) => <Trial {...edit} />}
      history={useHistory(name, Boolean(detail) && isAdmin)}
      save={(edit) => answer(http.PUT("/api/v2/exit-specs/{name}", { params: { path: { name: edit.name } }, body: { spec: read(edit.text), reason: edit.reason, force: edit.isForced } }))}
      revert={(reason) => answer(http.DELETE("/api/v2/exit-specs/{name}", { params: { path: { name }, query: { reason } } }))}
      changed={useChanged()}
      close={close}
    />
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
        <CopyCommand words={["exit-spec", "test", ...(name ? [name] : []), "--file", "spec.yaml", ...(log ? ["--log", "log.txt"] : []), "--jobs", String(jobs)]} />
        <Button size="xs" variant="default" loading={test.isPending} onClick={() => test.mutate()}>{i18n.t("Test")}</Button>
      </div>
      <Refusal error={test.error} />
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
