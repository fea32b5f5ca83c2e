// One account: what it may do, its password and logins, and its end.
import { i18n } from "@lingui/core";
import { Button, Checkbox, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answer, http } from "@/api/client";
import { Ask } from "@/ui/Ask";
import { CopyCommand } from "@/ui/Copy";
import { Link } from "@/ui/Link";
import { notify, notifyError } from "@/ui/notices";
import { GroupChoice } from "./GroupChoice";
import { useChanged, type User } from "./queries";
import css from "./UsersPage.module.css";

export function OneUser({ user, isMe, onGone }: { user: User; isMe: boolean; onGone: () => void }) {
  const [groups, setGroups] = useState<string[]>([...user.grouplist]);
  const [email, setEmail] = useState(user.email);
  const [admin, setAdmin] = useState(user.admin);
  const [password, setPassword] = useState("");
  const [asked, setAsked] = useState<"remove" | "revoke" | null>(null);
  const changed = useChanged();
  const path = { username: user.username };
  const save = useMutation({
    mutationFn: async () => {
      const data = { username: user.username, ...(email !== user.email && { email }), ...(admin !== user.admin && { admin }), ...(password && { password }) };
      if (Object.keys(data).length > 1) await answer(http.PUT("/api/v2/users", { body: { patch: true, data } }));
      if ([...groups].sort().join() !== [...user.grouplist].sort().join()) await answer(http.PUT("/api/v2/users/{username}/grouplist", { params: { path }, body: { grouplist: groups } }));
    },
    onSuccess: () => {
      notify(i18n.t("{name} is changed", { name: user.username }));
      setPassword("");
    },
    onError: notifyError,
    onSettled: changed,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const act = async () => {
    if (asked === "remove") {
      await answer(http.DELETE("/api/v2/users/{username}", { params: { path } }));
      onGone();
    } else {
      await answer(http.DELETE("/api/v2/users/{username}/tokens", { params: { path } }));
      notify(i18n.t("All logins and tokens of {name} have ended", { name: user.username }));
    }
    await changed();
  };
  const isLocal = user.source === "local";
  const change = [
    ...(email !== user.email ? ["--email", email] : []),
    ...(admin !== user.admin ? [admin ? "--admin" : "--no-admin"] : []),
    ...([...groups].sort().join() !== [...user.grouplist].sort().join() ? ["--group", groups.join(",") || "default"] : []),
  ];
  const words = change.length ? ["user", "set", user.username, ...change] : ["user", password ? "password" : "show", user.username];
  return (
    <form className={css.form} onSubmit={submit}>
      <p className={css.dim}><Link to="/jobs" query={{ user: user.username }}>{i18n.t("Jobs")}</Link> · {user.virtualCluster.join(", ") || i18n.t("no virtual cluster")}</p>
      <TextInput label={i18n.t("E-mail")} type="email" autoComplete="off" disabled={!isLocal} value={email} onChange={(event) => setEmail(event.target.value)} />
      <GroupChoice chosen={groups} choose={setGroups} />
      <Checkbox label={i18n.t("Administrator of the platform")} disabled={isMe || !isLocal} checked={admin} onChange={(event) => setAdmin(event.target.checked)} />
      {isLocal && !isMe && <TextInput label={i18n.t("New password")} description={i18n.t("Ends all logins of the user; empty: unchanged")} autoComplete="off" value={password} onChange={(event) => setPassword(event.target.value)} />}
      <div className={css.line}><CopyCommand words={words} /><Button type="submit" loading={save.isPending}>{i18n.t("Save")}</Button></div>
      {!isMe && (
        <div className={css.line}>
          <Button size="xs" variant="default" onClick={() => setAsked("revoke")}>{i18n.t("End all logins and tokens")}</Button>
          {!user.admin && <Button size="xs" color="red" variant="light" onClick={() => setAsked("remove")}>{i18n.t("Remove the user")}</Button>}
        </div>
      )}
      {asked && (
        <Ask title={asked === "remove" ? i18n.t("Remove {name}?", { name: user.username }) : i18n.t("End all logins and tokens of {name}?", { name: user.username })}
          verb={asked === "remove" ? i18n.t("Remove") : i18n.t("End them")} command={["user", asked, user.username]} onClose={() => setAsked(null)} act={act}>
          <p>{asked === "remove" ? i18n.t("Their jobs stay, and reports still count what they used.") : i18n.t("They can log in again; programs need new tokens.")}</p>
        </Ask>
      )}
    </form>
  );
}
