// A new account, with a password that was made up here and is shown once.
import { i18n } from "@lingui/core";
import { Button, Checkbox, Modal, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answer, http } from "@/api/client";
import { copy, CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { GroupChoice } from "./GroupChoice";
import { useChanged } from "./queries";
import css from "./UsersPage.module.css";

const LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/** Returns a password of 20 letters and digits that are not mistaken for each other. */
export function madeUp(): string {
  // 2^32 is so many times the number of letters that none is noticeably more likely.
  return [...crypto.getRandomValues(new Uint32Array(20))].map((value) => LETTERS[value % LETTERS.length]).join("");
}

export function NewUser({ onClose }: { onClose: () => void }) {
  const [username, setName] = useState("");
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState(madeUp);
  const [admin, setAdmin] = useState(false);
  const [groups, setGroups] = useState<string[]>([]);
  const changed = useChanged();
  const add = useMutation({
    mutationFn: () => answer(http.POST("/api/v2/users", { body: { username, password, email, admin, grouplist: groups } })),
    onSuccess: changed,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate();
  };
  return (
    <Modal opened onClose={onClose} title={i18n.t("New user")} centered closeOnClickOutside={false} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
      {add.data ? (
        <div className={css.form}>
          <p>{i18n.t("{name} can log in. Send them their password; it is not shown again.", { name: username })}</p>
          <Button leftSection={<Icon name="copy" size={15} />} data-autofocus onClick={() => void copy(password)}>{i18n.t("Copy the password")}</Button>
        </div>
      ) : (
        <form className={css.form} onSubmit={submit}>
          <TextInput label={i18n.t("Name")} required withAsterisk={false} autoComplete="off" value={username} onChange={(event) => setName(event.target.value)} data-autofocus />
          <TextInput label={i18n.t("E-mail")} type="email" autoComplete="off" value={email} onChange={(event) => setEmail(event.target.value)} />
          <TextInput label={i18n.t("Password")} required withAsterisk={false} autoComplete="off" value={password} onChange={(event) => setPassword(event.target.value)} />
          <GroupChoice chosen={groups} choose={setGroups} />
          <Checkbox label={i18n.t("Administrator of the platform")} checked={admin} onChange={(event) => setAdmin(event.target.checked)} />
          {add.error && <p role="alert" className={css.bad}>{add.error.message}</p>}
          <div className={css.line}><CopyCommand words={["user", "add", username || "NAME", ...(admin ? ["--admin"] : []), ...groups.flatMap((one) => ["--group", one])]} /><Button type="submit" loading={add.isPending}>{i18n.t("Add the user")}</Button></div>
        </form>
      )}
    </Modal>
  );
}
