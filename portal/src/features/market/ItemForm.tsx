// What an author writes into an item: publishing a new one, and editing one.
import { i18n } from "@lingui/core";
import { Button, Switch, TextInput, Textarea } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { ApiError, answer, http } from "@/api/client";
import { later } from "@/api/parts";
import { useMe } from "@/api/session";
import { CopyCommand } from "@/ui/Copy";
import type { Mark } from "@/ui/Editor";
import { notify } from "@/ui/notices";
import { Card } from "@/ui/Page";
import { Part } from "@/ui/Part";
import { writeCommand } from "./command";
import css from "./ItemPage.module.css";
import { kindName } from "./names";
import { KINDS, useChanged, type Detail, type Kind, type Text } from "./queries";

const Editor = later(() => import("@/ui/Editor"));

type Start = Partial<Pick<Text, "title" | "summary" | "description" | "protocol" | "storage" | "path" | "address" | "categories" | "tags">> & { kind?: Kind };

interface ItemFormProps {
  /** The item to edit; a new one without it. */
  item?: Detail;
  start?: Start;
  /** Whether only its author sees a new one, unless they choose otherwise. */
  isPrivate?: boolean;
  onDone: (item: Detail) => void;
}

const split = (text: string) => [...new Set(text.split(",").map((one) => one.trim()).filter(Boolean))];

export function ItemForm({ item, start = {}, isPrivate, onDone }: ItemFormProps) {
  const me = useMe().data;
  const changed = useChanged();
  const first: Start = item?.proposed ?? item ?? start;
  const shares = item?.proposed ?? item;
  const [name, setName] = useState("");
  const [kind, setKind] = useState<Kind>(item?.kind ?? start.kind ?? "template");
  const [text, setText] = useState({
    title: first.title ?? "", summary: first.summary ?? "", description: first.description ?? "", protocol: first.protocol ?? "",
    storage: first.storage ?? "", path: first.path ?? "", address: first.address ?? "",
    categories: (first.categories ?? []).join(", "), tags: (first.tags ?? []).join(", "),
    visibility: shares?.visibility ?? ((isPrivate ? "private" : "public") as Text["visibility"]), groups: (shares?.groups ?? []).join(", "), virtualClusters: (shares?.virtualClusters ?? []).join(", "), comment: "",
  });
  const [isOfficial, setIsOfficial] = useState(item?.official ?? false);
  const isShared = text.visibility === "shared";
  const lists = { categories: split(text.categories), tags: split(text.tags), groups: isShared ? split(text.groups) : [], virtualClusters: isShared ? split(text.virtualClusters) : [] };
  const save = useMutation({
    mutationFn: (isOver: boolean) => {
      const body = { ...text, ...lists, official: me?.admin ? isOfficial : null };
      if (item) return answer(http.PUT("/api/v2/market/items/{item}", { params: { path: { item: item.name } }, body: { ...body, revision: isOver ? null : item.newest } })) as Promise<Detail>;
      return answer(http.POST("/api/v2/market/items", { body: { ...body, name, kind, author: "" } })) as Promise<Detail>;
    },
    onSuccess: async (after) => {
      notify(after.status === "pending" || after.proposed ? i18n.t("Saved; others see it once an administrator approves it") : i18n.t("Saved"));
      await changed(after);
      onDone(after);
    },
  });
  const error = save.error;
  const marks = useMemo<Mark[]>(() => error instanceof ApiError ? error.faults.map((fault) => ({ line: fault.line ?? 1, text: fault.message })) : [], [error]);
  const line = (key: Exclude<keyof typeof text, "visibility">, label: string, more: { description?: string; required?: boolean; maxLength?: number } = {}) => (
    <TextInput label={label} value={text[key]} onChange={(event) => setText({ ...text, [key]: event.target.value })} {...more} />
  );
  return (
    <form className={css.both} onSubmit={(event) => { event.preventDefault(); save.mutate(false); }}>
      <Card title={i18n.t("Item")}>
        <div className={css.form}>
          {!item && <TextInput label={i18n.t("Name")} description={i18n.t("Small letters, digits, dots, - and _; it cannot be changed")} required value={name} maxLength={64} onChange={(event) => setName(event.target.value)} spellCheck={false} />}
          {!item && (
            <label className={css.label}>
              <span>{i18n.t("Kind")}</span>
              <select className={css.choice} value={kind} onChange={(event) => setKind(KINDS.find((one) => one === event.target.value) ?? "template")}>
                {KINDS.map((one) => <option key={one} value={one}>{kindName(one)}</option>)}
              </select>
            </label>
          )}
          {line("title", i18n.t("Title"), { required: true, maxLength: 100 })}
          {line("summary", i18n.t("Summary"), { description: i18n.t("One sentence"), maxLength: 300 })}
          <Textarea label={i18n.t("Description")} description={i18n.t("Markdown; pictures are shown as links")} autosize minRows={4} maxRows={16} value={text.description} onChange={(event) => setText({ ...text, description: event.target.value })} />
          {kind !== "template" && (
            <>
              {line("storage", i18n.t("Storage"))}
              {line("path", i18n.t("Path in the storage"))}
              {line("address", i18n.t("Address"), { description: i18n.t("Its URL, if it is in no storage") })}
            </>
          )}
          {line("categories", i18n.t("Categories"), { description: i18n.t("With commas between") })}
          {line("tags", i18n.t("Tags"), { description: i18n.t("With commas between") })}
          <label className={css.label}>
            <span>{i18n.t("Who sees it")}</span>
            <select className={css.choice} value={text.visibility} onChange={(event) => setText({ ...text, visibility: event.target.value as Text["visibility"] })}>
              <option value="public">{i18n.t("all users")}</option>
              <option value="shared">{i18n.t("groups and virtual clusters")}</option>
              <option value="private">{i18n.t("only you and administrators")}</option>
            </select>
          </label>
          {text.visibility === "shared" && line("groups", i18n.t("Groups"), { description: i18n.t("With commas between") })}
          {text.visibility === "shared" && line("virtualClusters", i18n.t("Virtual clusters"), { description: i18n.t("With commas between") })}
          {me?.admin && <Switch label={i18n.t("Official: only administrators change it")} checked={isOfficial} onChange={(event) => setIsOfficial(event.currentTarget.checked)} />}
          {item && line("comment", i18n.t("What the edit is for"), { description: i18n.t("Kept in the history"), maxLength: 1000 })}
          {error && (
            <div role="alert" className={css.bad}>
              {error.message}{error instanceof ApiError && error.advice && `\n${error.advice}`}
              {item && error instanceof ApiError && error.status === 409 && <p><Button size="compact-xs" variant="default" onClick={() => save.mutate(true)}>{i18n.t("Save mine over it all the same")}</Button></p>}
            </div>
          )}
          <div className={css.line}>
            <Button type="submit" loading={save.isPending}>{item ? i18n.t("Save") : i18n.t("Publish")}</Button>
            {item && <Button variant="default" onClick={() => onDone(item)}>{i18n.t("Cancel")}</Button>}
            <CopyCommand words={writeCommand(item?.name ?? name, { ...text, ...lists }, item ? null : kind, isOfficial && Boolean(me?.admin))} />
          </div>
        </div>
      </Card>
      <Card title={i18n.t("Job file")}>
        <div className={css.form}>
          <p className={css.dim}>{i18n.t("It must hold no secrets: write ****** in place of each, and whoever runs the item gives their own.")}</p>
          <div className={css.tall}>
            <Part>
              <Editor value={text.protocol} onChange={(protocol) => setText((old) => ({ ...old, protocol }))} marks={marks} label={i18n.t("Job file")} />
            </Part>
          </div>
        </div>
      </Card>
    </form>
  );
}
