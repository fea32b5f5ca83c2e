// What users change of their own account: the address for mail, and the password.
import { i18n } from "@lingui/core";
import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answer, http } from "@/api/client";
import { logIn, ME, type User } from "@/api/session";
import { CopyCommand } from "@/ui/Copy";
import { notify, notifyError } from "@/ui/notices";
import { Card } from "@/ui/Page";
import css from "./ProfilePage.module.css";

export function Email({ me }: { me: User }) {
  const [email, setEmail] = useState(me.email);
  const queries = useQueryClient();
  const save = useMutation({
    mutationFn: () => answer(http.PUT("/api/v2/users/me", { body: { patch: true, data: { username: me.username, email } } })),
    onSuccess: () => {
      notify(i18n.t("The address is saved"));
      void queries.invalidateQueries({ queryKey: ME });
    },
    onError: notifyError,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Card title={i18n.t("E-mail")}>
      <form className={css.row} onSubmit={submit}>
        <TextInput type="email" label={i18n.t("Address")} autoComplete="email" disabled={me.source !== "local"} value={email} onChange={(event) => setEmail(event.target.value)} />
        <Button type="submit" variant="default" loading={save.isPending} disabled={email === me.email}>{i18n.t("Save")}</Button>
      </form>
      {me.source !== "local" && <p className={css.dim}>{i18n.t("Your organisation's sign-on keeps it.")}</p>}
    </Card>
  );
}

export function Password({ me }: { me: User }) {
  const [old, setOld] = useState("");
  const [password, setPassword] = useState("");
  const change = useMutation({
    mutationFn: async () => {
      await answer(http.PUT("/api/v2/users/me", { body: { patch: true, data: { username: me.username, oldPassword: old, newPassword: password } } }));
      // The change ended every login, this one too.
      await logIn(me.username, password);
    },
    onSuccess: () => {
      setOld("");
      setPassword("");
      notify(i18n.t("The password is changed; all other logins have ended"));
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    change.mutate();
  };
  return (
    <Card title={i18n.t("Password")}>
      <form className={css.form} onSubmit={submit}>
        <input type="text" autoComplete="username" value={me.username} readOnly hidden />
        <PasswordInput label={i18n.t("Present password")} autoComplete="current-password" required withAsterisk={false} value={old} onChange={(event) => setOld(event.target.value)}
          visibilityToggleButtonProps={{ "aria-label": i18n.t("Show the present password"), "aria-hidden": undefined, tabIndex: 0 }} />
        <PasswordInput label={i18n.t("New password")} autoComplete="new-password" required withAsterisk={false} value={password} onChange={(event) => setPassword(event.target.value)}
          visibilityToggleButtonProps={{ "aria-label": i18n.t("Show the new password"), "aria-hidden": undefined, tabIndex: 0 }} />
        {change.error && <p role="alert" className={css.bad}>{change.error.message}</p>}
        <div className={css.line}>
          <CopyCommand words={["user", "password"]} />
          <Button type="submit" variant="default" loading={change.isPending} disabled={!old || !password}>{i18n.t("Change the password")}</Button>
        </div>
      </form>
    </Card>
  );
}
