// The directory whose files every task finds where it starts: chosen or dropped, without what stays here.
import { i18n } from "@lingui/core";
import { Button, Progress } from "@mantine/core";
import { useRef, useState, type DragEvent } from "react";
import { ApiError } from "@/api/client";
import { size } from "@/ui/amount";
import { Icon } from "@/ui/Icon";
import { visible } from "@/ui/visible";
import { ofDrop, ofInput } from "./codeFiles";
import { textAt, type Fields } from "./fields";
import css from "./SubmitPage.module.css";
import { CODE, type CodeState, type Going } from "./useCode";

const SECRETS_SHOWN = 5;

export function Code({ fields, code }: { fields: Fields; code: CodeState }) {
  const input = useRef<HTMLInputElement>(null);
  const [isOver, setIsOver] = useState(false);
  const digest = textAt(fields, CODE);
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setIsOver(false);
    if (event.dataTransfer.items.length) code.choose(ofDrop(event.dataTransfer.items));
  };
  const isThere = Boolean(digest || code.step || code.error);
  return (
    <fieldset className={css.group}>
      <legend>{i18n.t("Code")}</legend>
      <div className={css.drop} data-over={isOver || undefined} onDragOver={(event) => { event.preventDefault(); setIsOver(true); }} onDragLeave={() => setIsOver(false)} onDrop={drop}>
        <div role="status">
          {code.going && code.going.digest === digest ? <Sent going={code.going} /> : digest && !code.step && <p>{i18n.t("The code {digest} goes along.", { digest: digest.slice(0, 12) })}</p>}
          {!isThere && <p className={css.dim}>{i18n.t("Drop a directory here: every task starts in a copy of it. What .gitignore and .paiignore name stays here, and so do files of secrets.")}</p>}
        </div>
        {code.step && (
          <div>
            <p>{code.step === "reading" ? i18n.t("The files are read …") : i18n.t("The code is sent …")}</p>
            <Progress value={code.part * 100} aria-label={code.step === "reading" ? i18n.t("Files read") : i18n.t("Code sent")} />
          </div>
        )}
        {code.error && <p role="alert" className={css.bad}>{code.error.message}. {code.error instanceof ApiError && code.error.advice}</p>}
        <div className={css.buttons}>
          <input ref={input} type="file" hidden aria-label={i18n.t("Directory of the code")} {...{ webkitdirectory: "" }}
            onChange={(event) => { code.choose(ofInput(event.target.files ?? [])); event.target.value = ""; }} />
          {!code.step && <Button size="xs" variant="default" leftSection={<Icon name="up" size={15} />} onClick={() => input.current?.click()}>{isThere ? i18n.t("Choose another directory") : i18n.t("Choose a directory")}</Button>}
          {code.again && <Button size="xs" variant="default" onClick={code.again}>{i18n.t("Try again")}</Button>}
          {isThere && <Button size="xs" variant="subtle" onClick={code.remove}>{code.step ? i18n.t("Cancel") : i18n.t("Without code")}</Button>}
        </div>
      </div>
    </fieldset>
  );
}

function Sent({ going }: { going: Going }) {
  const files = i18n.t("{count, plural, one {# file} other {# files}}, {size}", { count: going.files, size: size(going.bytes) });
  const more = going.secrets.length - SECRETS_SHOWN;
  const secrets = [...going.secrets.slice(0, SECRETS_SHOWN).map(visible), ...(more > 0 ? [i18n.t("{more} more", { more })] : [])].join(", ");
  return (
    <>
      <p><strong>{visible(going.directory) || i18n.t("The dropped files")}</strong>: {files}. {going.newFiles ? i18n.t("{count, plural, one {# new content was sent} other {# new contents were sent}} ({size}).", { count: going.newFiles, size: size(going.newBytes) }) : i18n.t("The server had all of it.")}</p>
      {secrets && <p className={css.stays}>{i18n.t("Left out, since their names are those of secrets: {secrets}. A line such as !.env in .paiignore sends one.", { secrets })}</p>}
    </>
  );
}
