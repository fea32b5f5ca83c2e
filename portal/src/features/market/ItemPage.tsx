// One item: what it is, a form to run it, its file, and its revisions.
import { i18n } from "@lingui/core";
import { Button, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useNavigate, useParams } from "@tanstack/react-router";
import { useState } from "react";
import { answer, http } from "@/api/client";
import { later } from "@/api/parts";
import { useMe } from "@/api/session";
import { useAddress } from "@/ui/address";
import { Ask } from "@/ui/Ask";
import { copy, CopyCommand } from "@/ui/Copy";
import { LinkButton } from "@/ui/LinkButton";
import { Loaded } from "@/ui/Loaded";
import { notify, notifyError } from "@/ui/notices";
import { Card, Fact, Facts, Page } from "@/ui/Page";
import { Part } from "@/ui/Part";
import { Ago } from "@/ui/time";
import { ItemForm } from "./ItemForm";
import css from "./ItemPage.module.css";
import { kindName, Marks, Star } from "./names";
import { useChanged, useItem, type Detail, type Text } from "./queries";
import { Revisions } from "./Revisions";
import { Run } from "./Run";

const Markdown = later(() => import("@/ui/Markdown"));

export default function ItemPage() {
  const { item = "" } = useParams({ strict: false }) as { item?: string };
  const found = useItem(item);
  const [query, change] = useAddress();
  if (!found.data) return <Page title={item}><Card><Loaded query={found} rows={6}>{() => null}</Loaded></Card></Page>;
  if (query["edit"] && found.data.editable)
    return (
      <Page wide title={i18n.t("Edit {name}", { name: found.data.title })} actions={<CopyCommand words={["market", "edit", item]} />}>
        <ItemForm item={found.data} onDone={() => change({ edit: "" })} />
      </Page>
    );
  return <One item={found.data} edit={() => change({ edit: "1" }, { push: true })} />;
}

function One({ item, edit }: { item: Detail; edit: () => void }) {
  const me = useMe().data;
  const [isProposed, setIsProposed] = useState(false);
  const text: Detail | Text = (isProposed && item.proposed) || item;
  const isTheirs = Boolean(me?.admin || item.editable);
  return (
    <Page wide title={text.title} lead={<span className={css.lead}><Marks item={item} /><span>{text.summary}</span></span>} actions={
      <>
        <CopyCommand words={["market", "show", item.name]} />
        <Star item={item} />
        <Fork item={item} />
        {item.editable && <Button size="xs" variant="default" onClick={edit}>{i18n.t("Edit")}</Button>}
        {item.editable && <Remove name={item.name} />}
      </>
    }>
      {me?.admin && <Review item={item} isProposed={isProposed} show={setIsProposed} />}
      {!me?.admin && item.reason && <div className={css.notice} data-tone="bad" role="status">{i18n.t("Rejected: {reason}", { reason: item.reason })}</div>}
      {!me?.admin && item.proposed && !item.reason && <div className={css.notice} role="status">{i18n.t("Your edit waits for an administrator; others see the revision before.")}</div>}
      <div className={css.grid}>
        <div className={css.main}>
          <Card title={i18n.t("Description")}>
            {text.description.trim() ? (
              <Part><Markdown text={text.description} /></Part>
            ) : <p className={css.dim}>{i18n.t("Its author wrote none.")}</p>}
          </Card>
          {text.protocol && (
            <Card title={i18n.t("Job file")} aside={<CopyText text={text.protocol} />}>
              <pre className={css.file} tabIndex={0} aria-label={i18n.t("Job file")}>{text.protocol}</pre>
            </Card>
          )}
          {isTheirs && <Card title={i18n.t("Revisions")}><Revisions name={item.name} /></Card>}
        </div>
        <div className={css.side}>
          {item.protocol && <Card title={i18n.t("Run it")}><Run key={item.revision} item={item} /></Card>}
          {item.usage && (
            <Card title={i18n.t("Use it in a job")} aside={<CopyText text={item.usage} />}>
              <pre className={css.file} tabIndex={0} aria-label={i18n.t("Use it in a job")}>{item.usage}</pre>
            </Card>
          )}
          <Card title={i18n.t("About")}>
            <Facts>
              <Fact name={i18n.t("Name")}><code>{item.name}</code></Fact>
              <Fact name={i18n.t("Kind")}>{kindName(item.kind)}</Fact>
              <Fact name={i18n.t("Author")}>{item.author}</Fact>
              {text.storage && <Fact name={i18n.t("Storage")}>{text.storage}</Fact>}
              {text.path && <Fact name={i18n.t("Path")}><code>{text.path}</code></Fact>}
              {text.address && <Fact name={i18n.t("Address")}><code className={css.long}>{text.address}</code></Fact>}
              <Fact name={i18n.t("Categories")}>{text.categories.join(", ") || "–"}</Fact>
              <Fact name={i18n.t("Tags")}>{text.tags.join(", ") || "–"}</Fact>
              {text.visibility === "shared" && <Fact name={i18n.t("Shared with")}>{[...text.groups, ...text.virtualClusters].join(", ")}</Fact>}
              <Fact name={i18n.t("Uses")}>{i18n.t("{count, plural, one {# job} other {# jobs}}", { count: item.uses })} · {i18n.t("{count, plural, one {# user} other {# users}}", { count: item.users })}</Fact>
              <Fact name={i18n.t("Revision")}>{item.revision} · <Ago ms={item.changedTime} /></Fact>
            </Facts>
          </Card>
        </div>
      </div>
    </Page>
  );
}

function CopyText({ text }: { text: string }) {
  return <Button size="compact-xs" variant="default" onClick={async () => { await copy(text); notify(i18n.t("Copied")); }}>{i18n.t("Copy")}</Button>;
}

function Fork({ item }: { item: Detail }) {
  return item.protocol || item.usage ? <LinkButton to="/publish" query={{ fork: item.name }} variant="default" icon="clone">{i18n.t("Fork")}</LinkButton> : null;
}

function Remove({ name }: { name: string }) {
  const [isAsked, setIsAsked] = useState(false);
  const navigate = useNavigate();
  const changed = useChanged();
  const remove = async () => {
    await answer(http.DELETE("/api/v2/market/items/{item}", { params: { path: { item: name } } }));
    await navigate({ to: "/market" } as never);
    await changed();
  };
  return (
    <>
      <Button size="xs" color="red" variant="light" onClick={() => setIsAsked(true)}>{i18n.t("Remove")}</Button>
      {isAsked && (
        <Ask title={i18n.t("Remove {name}?", { name })} verb={i18n.t("Remove")} command={["market", "remove", name]} onClose={() => setIsAsked(false)} act={remove}>
          <p>{i18n.t("Its stars and revisions are gone for good. Jobs that were submitted from it stay.")}</p>
        </Ask>
      )}
    </>
  );
}

/** What an administrator decides: on a new item, on an edit of an approved one, or to take one out of sight. */
function Review({ item, isProposed, show }: { item: Detail; isProposed: boolean; show: (on: boolean) => void }) {
  const [reason, setReason] = useState("");
  const changed = useChanged();
  const review = useMutation({
    mutationFn: (approved: boolean) => answer(http.PUT("/api/v2/market/items/{item}/review", { params: { path: { item: item.name } }, body: { approved, revision: item.newest, reason } })) as Promise<Detail>,
    onSuccess: async (after) => {
      show(false);
      await changed(after);
    },
    onError: notifyError,
  });
  if (item.status === "approved" && !item.proposed) return null;
  return (
    <div className={css.notice} role="status">
      <p>
        {item.proposed ? i18n.t("Revision {revision} by {user} is not approved; others see revision {shown}.", { revision: item.proposed.revision, user: item.proposed.user, shown: item.revision }) : i18n.t("Only its author and administrators see it.")}
        {item.reason && ` ${i18n.t("Rejected: {reason}", { reason: item.reason })}`}
      </p>
      <div className={css.line}>
        {item.proposed && <Button size="xs" variant="default" aria-pressed={isProposed} onClick={() => show(!isProposed)}>{isProposed ? i18n.t("Show what others see") : i18n.t("Show the new revision")}</Button>}
        <TextInput size="xs" aria-label={i18n.t("Reason")} placeholder={i18n.t("Reason")} value={reason} maxLength={1000} onChange={(event) => setReason(event.target.value)} />
        <Button size="xs" variant="default" loading={review.isPending} onClick={() => review.mutate(false)}>{i18n.t("Reject")}</Button>
        <Button size="xs" loading={review.isPending} onClick={() => review.mutate(true)}>{i18n.t("Approve")}</Button>
        <CopyCommand isSmall words={["market", reason ? "reject" : "approve", item.name, "--revision", String(item.newest), ...(reason ? ["--reason", reason] : [])]} />
      </div>
    </div>
  );
}
