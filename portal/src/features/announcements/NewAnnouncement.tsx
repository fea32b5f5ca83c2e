// A new announcement: its text, how much it matters, and from when until when it is shown.
import { i18n } from "@lingui/core";
import { Button, Modal, SegmentedControl, Textarea, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answer, http, type Schemas } from "@/api/client";
import { CopyCommand } from "@/ui/Copy";
import css from "./AnnouncementsPage.module.css";
import { durations, moment } from "./times";

type Level = Schemas["Announcement"]["level"];

export function levelName(level: Level): string {
  return level === "critical" ? i18n.t("critical") : level === "warning" ? i18n.t("warning") : i18n.t("information");
}

export function NewAnnouncement({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const [text, setText] = useState("");
  const [level, setLevel] = useState<Level>("info");
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const add = useMutation({
    mutationFn: () => answer(http.POST("/api/v2/announcements", { body: { text, level, fromTime: moment(from), toTime: moment(to) } })),
    onSuccess: () => {
      onDone();
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate();
  };
  return (
    <Modal opened onClose={onClose} title={i18n.t("New announcement")} closeOnClickOutside={false} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
      <form className={css.form} onSubmit={submit}>
        <Textarea label={i18n.t("Text")} required withAsterisk={false} autosize minRows={3} maxRows={10} maxLength={2000} data-autofocus value={text} onChange={(event) => setText(event.target.value)} />
        <div>
          <span className={css.label} id="announcement-level">{i18n.t("Level")}</span>
          <SegmentedControl fullWidth size="xs" aria-labelledby="announcement-level" value={level} onChange={(chosen) => setLevel(chosen as Level)}
            data={(["info", "warning", "critical"] as const).map((value) => ({ value, label: levelName(value) }))} />
        </div>
        <TextInput type="datetime-local" label={i18n.t("From")} description={i18n.t("Empty: from now on")} value={from} onChange={(event) => setFrom(event.target.value)} />
        <TextInput type="datetime-local" label={i18n.t("To")} description={i18n.t("Empty: until it is removed")} value={to} onChange={(event) => setTo(event.target.value)} />
        {add.error && <p role="alert" className={css.bad}>{add.error.message}</p>}
        <div className={css.line}>
          <CopyCommand words={["announcement", "add", text || "TEXT", ...(level === "info" ? [] : ["--level", level]), ...durations(moment(from), moment(to), Date.now())]} />
          <Button type="submit" loading={add.isPending}>{i18n.t("Announce")}</Button>
        </div>
      </form>
    </Modal>
  );
}
