// Tokens of programs and logins of browsers: make one, see what is valid, revoke.
import { i18n } from "@lingui/core";
import { Button, Modal, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answer, http, type Schemas } from "@/api/client";
import { Ask } from "@/ui/Ask";
import { copy, CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded, Note } from "@/ui/Loaded";
import { Card } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { Ago, When } from "@/ui/time";
import css from "./ProfilePage.module.css";

type Token = Schemas["Token"];
const KEY = ["tokens"];
const DAY_S = 86_400;

function scopeName(scope: Token["scope"]): string {
  if (scope === "all") return i18n.t("everything you may do");
  return scope === "jobs" ? i18n.t("jobs only") : i18n.t("reading only");
}

export function Tokens() {
  const tokens = useQuery({ queryKey: KEY, queryFn: () => answer(http.GET("/api/v2/tokens")) as Promise<Schemas["TokenList"]> });
  const [isNew, setIsNew] = useState(false);
  const [revoked, setRevoked] = useState<Token | null>(null);
  const queries = useQueryClient();
  const revoke = async (token: Token) => {
    await answer(http.DELETE("/api/v2/tokens/{token}", { params: { path: { token: token.id } } }));
    await queries.invalidateQueries({ queryKey: KEY });
  };
  return (
    <Card title={i18n.t("Tokens and logins")} aside={<Button size="xs" leftSection={<Icon name="submit" size={15} />} onClick={() => setIsNew(true)}>{i18n.t("New token")}</Button>} flush>
      <Loaded query={tokens}>
        {(found) => {
          if (!found.details.length) return <Note icon="lock" title={i18n.t("No tokens")}>{i18n.t("Scripts and CI log in with a token instead of your password.")}</Note>;
          return (
            <Table label={i18n.t("Tokens and logins")} heads={[i18n.t("Name"), i18n.t("May do"), i18n.t("Made"), i18n.t("Ends"), ""]}>
              {found.details.map((token) => (
                <tr key={token.id}>
                  <td>{token.application ? token.name || i18n.t("a token") : token.current ? i18n.t("this login") : i18n.t("a login")}</td>
                  <td>{scopeName(token.scope)}</td>
                  <td><Ago ms={token.createdTime} /></td>
                  <td>{token.expirationTime ? <When ms={token.expirationTime} /> : i18n.t("never")}</td>
                  <td>{!token.current && <Button size="compact-xs" variant="subtle" color="red" onClick={() => setRevoked(token)}>{i18n.t("Revoke")}</Button>}</td>
                </tr>
              ))}
            </Table>
          );
        }}
      </Loaded>
      {isNew && <NewToken onClose={() => { setIsNew(false); void queries.invalidateQueries({ queryKey: KEY }); }} />}
      {revoked && (
        <Ask title={i18n.t("Revoke this token?")} verb={i18n.t("Revoke")} command={["token", "revoke", revoked.id.slice(0, 12)]} onClose={() => setRevoked(null)} act={() => revoke(revoked)}>
          <p>{i18n.t("What uses it is refused from then on.")}</p>
        </Ask>
      )}
    </Card>
  );
}

function NewToken({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [scope, setScope] = useState<Token["scope"]>("jobs");
  const [days, setDays] = useState(90);
  const make = useMutation({
    mutationFn: () =>
      answer(http.POST("/api/v2/tokens/application", { body: { name, scope, ...(days ? { expiration: days * DAY_S } : {}) } })) as Promise<Schemas["NewToken"]>,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    make.mutate();
  };
  return (
    <Modal opened onClose={onClose} title={i18n.t("New token")} centered closeOnClickOutside={!make.data} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
      {make.data ? (
        <div className={css.form}>
          <p>{i18n.t("Copy it now: it is not shown again.")}</p>
          <code className={css.secret}>{make.data.token}</code>
          <Button leftSection={<Icon name="copy" size={15} />} data-autofocus onClick={() => void copy(make.data.token)}>{i18n.t("Copy")}</Button>
          <p className={css.dim}>{i18n.t("Programs send it as: Authorization: Bearer TOKEN; the command line reads it from PAI_TOKEN.")}</p>
        </div>
      ) : (
        <form className={css.form} onSubmit={submit}>
          <TextInput label={i18n.t("Name")} description={i18n.t("Where it is used, such as nightly-ci")} required withAsterisk={false} value={name} onChange={(event) => setName(event.target.value)} data-autofocus />
          <label className={css.field}>{i18n.t("May do")}
            <select className={css.select} value={scope} onChange={(event) => setScope(event.target.value as Token["scope"])}>
              {(["jobs", "read", "all"] as const).map((one) => <option key={one} value={one}>{scopeName(one)}</option>)}
            </select>
          </label>
          <label className={css.field}>{i18n.t("Ends")}
            <select className={css.select} value={days} onChange={(event) => setDays(Number(event.target.value))}>
              {[7, 30, 90, 365].map((one) => <option key={one} value={one}>{i18n.t("{days, plural, other {after # days}}", { days: one })}</option>)}
              <option value={0}>{i18n.t("never")}</option>
            </select>
          </label>
          {make.error && <p role="alert" className={css.bad}>{make.error.message}</p>}
          <div className={css.line}>
            <CopyCommand words={["token", "create", "--name", name || "NAME", "--scope", scope, ...(days ? ["--expires", `${days}d`] : [])]} />
            <Button type="submit" loading={make.isPending}>{i18n.t("Make the token")}</Button>
          </div>
        </form>
      )}
    </Modal>
  );
}
