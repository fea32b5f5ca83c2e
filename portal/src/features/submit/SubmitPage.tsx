// A job file beside a form of its first task role: both are one text, which the server checks as it is typed.
import { i18n } from "@lingui/core";
import { Button, Group } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState, type Ref } from "react";
import { parseDocument } from "yaml";
import { ApiError, answerText, sendText, type Schemas } from "@/api/client";
import { later } from "@/api/parts";
import { SLOW_MS } from "@/api/queries";
import { uniqueId } from "@/api/random";
import { useMe } from "@/api/session";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import type { Mark } from "@/ui/Editor";
import { handOver } from "@/ui/handed";
import { Icon } from "@/ui/Icon";
import { LinkButton } from "@/ui/LinkButton";
import { Problem } from "@/ui/Loaded";
import { notify } from "@/ui/notices";
import { Page } from "@/ui/Page";
import { Part } from "@/ui/Part";
import { exact } from "@/ui/time";
import { Drafts } from "./Drafts";
import { draftsOf, keepDraft, removeDraft, withoutSecrets, type Draft } from "./keptDrafts";
import { examples } from "./examples";
import { useCode, type CodeState } from "./useCode";
import { useCompletion } from "./useCompletion";
import { lineOf } from "./fields";
import { Form } from "./Form";
import css from "./SubmitPage.module.css";

const Editor = later(() => import("@/ui/Editor"));
const DRAFT = "pai-draft";
const DRAFT_ID = "pai-draft-id";

interface Drafting {
  text: string;
  setText: (text: string) => void;
  drafts: readonly Draft[];
  open: (draft: Draft) => void;
  /** Begins another draft; the present one stays in the list. */
  begin: (text: string) => void;
  remove: (draft: Draft) => void;
  /** Forgets the draft, which was submitted. */
  forget: () => void;
}

/** Keeps what was typed: in this tab at once, and in the list of drafts for as long as the browser keeps it. */
function useDrafts(user: string): Drafting {
  const [text, setText] = useState(() => sessionStorage.getItem(DRAFT) ?? examples()[0]?.text ?? "");
  const [id, setId] = useState(() => sessionStorage.getItem(DRAFT_ID) ?? uniqueId());
  const [drafts, setDrafts] = useState<readonly Draft[]>([]);
  const begun = useRef(text);
  useEffect(() => setDrafts(draftsOf(user)), [user]);
  useEffect(() => {
    sessionStorage.setItem(DRAFT_ID, id);
    const kept = withoutSecrets(text);
    if (kept !== text) sessionStorage.removeItem(DRAFT);
    else sessionStorage.setItem(DRAFT, text);
    if (!user || text === begun.current) return;
    keepDraft(user, id, text, Date.now());
    setDrafts(draftsOf(user));
  }, [text, id, user]);
  const show = (shown: string, as: string) => {
    begun.current = shown;
    setId(as);
    setText(shown);
  };
  return {
    text,
    setText,
    drafts: drafts.filter((one) => one.id !== id || one.text !== text),
    open: (draft) => show(draft.text, draft.id),
    begin: (fresh) => show(fresh, uniqueId()),
    remove: (draft) => {
      removeDraft(user, draft.id);
      setDrafts(draftsOf(user));
    },
    forget: () => {
      sessionStorage.removeItem(DRAFT);
      sessionStorage.removeItem(DRAFT_ID);
      removeDraft(user, id);
    },
  };
}

export default function SubmitPage() {
  const [query] = useAddress();
  const me = useMe().data;
  const clone = query["clone"] ?? "";
  const { text, setText, drafts, open, begin, remove, forget } = useDrafts(me?.username ?? "");
  const code = useCode(text, setText);
  const cloned = useQuery({
    queryKey: ["clone", clone],
    queryFn: async () => (await answerText(`/api/v2/jobs/${encodeURIComponent(clone)}/config`)).text,
    enabled: Boolean(clone),
    staleTime: Infinity,
  });
  useEffect(() => {
    const suffix = crypto.getRandomValues(new Uint16Array(1))[0]?.toString(16) ?? "2";
    if (cloned.data) begin(cloned.data.replace(/^name:\s*["']?([\w-]+)["']?\s*$/m, (_, name: string) => `name: ${name.slice(0, 200)}-${suffix}`));
  }, [cloned.data]);
  // `******` in the file of one's own job stands for the secrets of that job.
  const from = clone.startsWith(`${me?.username}~`) ? `?cloneOf=${encodeURIComponent(clone)}` : "";
  return (
    <div className={css.page}>
      <Page wide title={i18n.t("Submit a job")} actions={
        <>
          <CopyCommand words={["job", "submit", "job.yaml", ...(code.going ? ["--code", code.going.directory || "."] : [])]} />
          <LinkButton to="/publish" variant="default" icon="market" onClick={() => handOver(text)}>{i18n.t("Save as template")}</LinkButton>
        </>
      }
        lead={clone ? i18n.t("A copy of {name}", { name: clone }) : i18n.t("Fill in the form or edit the file; they are the same.")}>
        {cloned.error && <Problem error={cloned.error} />}
        <Group gap="xs" role="group" aria-label={i18n.t("Examples")}>
          <span className={css.dim}>{i18n.t("Start from an example")}:</span>
          {examples().map((one) => <Button key={one.key} size="xs" variant="default" onClick={() => begin(one.text)}>{one.name}</Button>)}
        </Group>
        <Drafts drafts={drafts} open={open} remove={remove} />
        <Both text={text} setText={setText} from={from} forget={forget} code={code} />
      </Page>
    </div>
  );
}

interface BothProps {
  text: string;
  setText: (text: string) => void;
  from: string;
  forget: () => void;
  code: CodeState;
}

function Both({ text, setText, from, forget, code }: BothProps) {
  const [checked] = useDebouncedValue(text, 400);
  const [key, setKey] = useState(() => uniqueId());
  const [refused, setRefused] = useState(0);
  const document = useMemo(() => parseDocument(text), [text]);
  // A file with a matrix makes an array of jobs.
  const isSweep = document.hasIn(["extras", "sweep", "matrix"]);
  const vc = document.hasIn(["defaults", "virtualCluster"]) ? String(document.getIn(["defaults", "virtualCluster"])) : "default";
  const completion = useCompletion(vc);
  const form = useRef<HTMLDivElement>(null);
  const verdict = useRef<HTMLDivElement>(null);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const check = useQuery({
    queryKey: ["check", checked, from],
    queryFn: () => sendText<Schemas["CheckedJob"]>(`/api/v2/jobs/check${from}`, checked),
    staleTime: 10_000,
    gcTime: 0,
    // Whether it would start changes as others submit and end.
    refetchInterval: SLOW_MS,
    placeholderData: (before, query) => (query?.state.status === "success" ? before : undefined),
  });
  const submit = useMutation({
    mutationFn: () => sendText<Schemas["Submitted"] | Schemas["SubmittedSweep"]>(isSweep ? "/api/v2/sweeps" : `/api/v2/jobs${from}`, text, { "Idempotency-Key": key }),
    onSuccess: (job) => {
      setKey(uniqueId());
      notify(job.message);
      forget();
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      void navigate(("jobs" in job ? { to: "/jobs", search: { user: job.user, sweep: job.name } } : { to: `/jobs/${job.user}~${job.name}` }) as never);
    },
    onError: (error) => {
      // Without an answer, or after a failure of the server, the job may be there: the same key never makes a second one.
      if (error instanceof ApiError && error.status >= 400 && error.status < 500) setKey(uniqueId());
      setRefused((count) => count + 1);
    },
  });
  useEffect(() => {
    submit.reset();
    setKey(uniqueId());
  }, [text]);
  // After a refusal the next key goes to what is wrong: the first field with a fault, or what the server says.
  useEffect(() => {
    if (refused) (form.current?.querySelector<HTMLElement>("[aria-invalid=true]") ?? verdict.current)?.focus();
  }, [refused]);
  const error = submit.error ?? (check.error?.message ? check.error : null);
  const marks = useMemo<Mark[]>(() => {
    if (!(error instanceof ApiError)) return [];
    return error.faults.map((fault) => ({ line: fault.line ?? lineOf(document, text, fault.path), text: [fault.message, fault.allowed && i18n.t("allowed: {allowed}", { allowed: fault.allowed }), fault.suggestion && i18n.t("did you mean {word}?", { word: fault.suggestion })].filter(Boolean).join("; ") }));
  }, [error, document]);
  return (
    <div className={css.both}>
      <div ref={form} className={css.parts}><Form text={text} setText={setText} faults={error instanceof ApiError ? error.faults : []} code={code} /></div>
      <div className={css.beside}>
        <Button size="md" loading={submit.isPending} disabled={Boolean(code.step)} onClick={() => submit.mutate()} leftSection={<Icon name="play" />}>{i18n.t("Submit")}</Button>
        <Verdict error={error} checked={check.data} marks={marks} ref={verdict} />
        <div className={css.editor}>
          <Part>
            <Editor value={text} onChange={setText} marks={marks} label={i18n.t("Job file")} extension={completion} />
          </Part>
        </div>
      </div>
    </div>
  );
}

interface VerdictProps {
  error: Error | null;
  checked: Schemas["CheckedJob"] | undefined;
  marks: Mark[];
  ref: Ref<HTMLDivElement>;
}

function Verdict({ error, checked, marks, ref }: VerdictProps) {
  if (!error)
    return (
      <div className={css.verdict} data-tone={checked?.waits?.length ? "wait" : "good"} role="status" ref={ref} tabIndex={-1}>
        {checked ? <p>{i18n.t("The server accepts this file for virtual cluster {vc}.", { vc: checked.virtualCluster })}</p> : i18n.t("The server checks the file …")}
        {checked?.waits && <Start waits={checked.waits} />}
        {checked?.warnings.map((warning) => <p key={warning}>{warning}</p>)}
      </div>
    );
  return (
    <div className={css.verdict} data-tone="bad" role="alert" ref={ref} tabIndex={-1}>
      <strong>{error.message.split("\n")[0]}</strong>
      {marks.length > 0 && <ul>{marks.slice(0, 12).map((mark, index) => <li key={index}>{i18n.t("line {line}", { line: mark.line })}: {mark.text}</li>)}</ul>}
      {error instanceof ApiError && error.advice && <p>{error.advice}</p>}
    </div>
  );
}

/** Whether the job would start now, in the words of the scheduler. */
function Start({ waits }: { waits: readonly Schemas["Wait"][] }) {
  const [wait] = waits;
  if (!wait) return <p><strong>{i18n.t("It would start now.")}</strong></p>;
  return (
    <>
      <p><strong>{i18n.t("It would wait: {reason}.", { reason: wait.message })}</strong></p>
      {wait.unblock && <p>{i18n.t("What would help: {unblock}.", { unblock: wait.unblock })}</p>}
      {wait.position !== null && wait.position > 1 && <p>{i18n.t("Place {position} in its queue.", { position: wait.position })}</p>}
      {wait.estimate?.earliestTime && <p>{i18n.t("It may start between {from} and {to}.", { from: exact(wait.estimate.earliestTime), to: wait.estimate.latestTime ? exact(wait.estimate.latestTime) : "?" })}</p>}
    </>
  );
}
