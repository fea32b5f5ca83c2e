// The login: a local account, or the organisation's own page.
import { i18n } from "@lingui/core";
import { Button, Divider, Modal, PasswordInput, TextInput } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useRouter } from "@tanstack/react-router";
import { useEffect, useState, type FormEvent } from "react";
import { answer, http, whenPageKeyChanges } from "@/api/client";
import { goToProvider, logIn, logInByCode, ME, signOnInWindow, takeSecret, useMe, WINDOW_DONE } from "@/api/session";
import { Link } from "@/ui/Link";
import { Note } from "@/ui/Loaded";
import { Page } from "@/ui/Page";
import css from "./Login.module.css";

function useProvider() {
  return useQuery({ queryKey: ["authn"], queryFn: () => answer(http.GET("/api/v2/authn/info")), staleTime: Infinity }).data;
}

/** The whole page, where nobody is logged in; it goes on to the address that was asked for. */
export function Login() {
  const queries = useQueryClient();
  const error = useReturn();
  useWindow();
  const done = () => queries.invalidateQueries({ queryKey: ME });
  // Also a login in another tab.
  useEffect(() => whenPageKeyChanges(() => void done()), []);
  return (
    <main className={css.page}>
      <div className={css.panel}>
        <img src="/favicon.svg" alt="" width={44} height={44} />
        <h1 className={css.title}>{i18n.t("Log in to OpenPAI")}</h1>
        <p className={css.lead}>{i18n.t("One GPU cluster, shared by many teams.")}</p>
        <Form onDone={done} error={error} />
      </div>
    </main>
  );
}

/** The page at this address for who is logged in: the last one of a window that was opened to sign on. */
export function LoggedIn() {
  const isWindow = new URLSearchParams(location.search).get("window") === "done";
  useEffect(() => {
    if (isWindow) window.close();
  }, [isWindow]);
  return (
    <Page title={i18n.t("Logged in")}>
      <Note icon="check" title={i18n.t("You are logged in")} actions={<Link to="/">{i18n.t("Home")}</Link>}>
        {isWindow && i18n.t("Close this window to continue where you were.")}
      </Note>
    </Page>
  );
}

/** Goes on to the provider at once in a window that was opened to sign on. */
function useWindow(): void {
  const provider = useProvider();
  useEffect(() => {
    const isNew = new URLSearchParams(location.search).get("window") === "begin";
    if (isNew && provider?.authn_type === "OIDC") void goToProvider(provider.loginURI, WINDOW_DONE);
  }, [provider]);
}

/** Above the page whose login ended, so that what was typed there stays. */
export function LoginAgain({ onDone, onOther }: { onDone: () => void; onOther: () => void }) {
  const me = useMe().data;
  return (
    <Modal opened onClose={() => undefined} withCloseButton={false} closeOnEscape={false} closeOnClickOutside={false} centered
      title={i18n.t("Your login has ended")}>
      <p className={css.lead}>{i18n.t("Log in again to continue where you were; nothing you typed is lost.")}</p>
      <Form user={me?.username} onDone={onDone} />
      <Button variant="subtle" size="xs" mt="md" onClick={onOther}>{i18n.t("Log in as another user")}</Button>
    </Modal>
  );
}

/** Returns where a user of this page wanted to go; only a path of ours, since an address with a host could lead elsewhere. */
function wanted(): string {
  if (location.pathname !== "/login") return location.pathname + location.search;
  const from = new URLSearchParams(location.search).get("from") ?? "/";
  return /^\/(?![/\\])/.test(from) ? from : "/";
}

/** Finishes a sign-on that comes back from a provider with a code, or with an error. */
function useReturn(): string {
  const [error, setError] = useState("");
  const navigate = useNavigate();
  const router = useRouter();
  const queries = useQueryClient();
  useEffect(() => {
    const query = new URLSearchParams(location.search);
    const code = query.get("code");
    const back = wanted();
    if (query.get("errorMessage")) setError(query.get("errorMessage") ?? "");
    if (!code || location.pathname !== "/login") return;
    const secret = takeSecret();
    if (!secret) return;
    logInByCode(code, secret)
      .then(async () => {
        router.history.replace(back);
        await queries.invalidateQueries({ queryKey: ME });
      })
      .catch((failed: Error) => setError(failed.message));
  }, [navigate, queries, router]);
  return error;
}

function Form({ user, onDone, error = "" }: { user?: string; onDone: () => unknown; error?: string }) {
  const provider = useProvider();
  const router = useRouter();
  const [name, setName] = useState(user ?? "");
  const [password, setPassword] = useState("");
  const [failed, setFailed] = useState("");
  const [isBusy, setIsBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setIsBusy(true);
    setFailed("");
    try {
      await logIn(name, password);
      if (location.pathname === "/login") router.history.replace(wanted());
      await onDone();
    } catch (caught) {
      setFailed(caught instanceof Error ? caught.message : String(caught));
    } finally {
      setIsBusy(false);
    }
  };
  const page = provider?.authn_type === "OIDC" ? provider : undefined;
  return (
    <div className={css.form}>
      {page && (
        <>
          <Button fullWidth size="md" onClick={() => (user ? signOnInWindow() : void goToProvider(page.loginURI, wanted()))}>
            {i18n.t("Continue with {provider}", { provider: page.label ?? "single sign-on" })}
          </Button>
          <Divider label={i18n.t("or with a local account")} />
        </>
      )}
      <form onSubmit={(event) => void submit(event)} className={css.form}>
        <TextInput label={i18n.t("User name")} autoComplete="username" required withAsterisk={false} value={name} readOnly={Boolean(user)}
          onChange={(event) => setName(event.target.value)} autoFocus={!user} />
        <PasswordInput label={i18n.t("Password")} autoComplete="current-password" required withAsterisk={false} value={password}
          onChange={(event) => setPassword(event.target.value)} autoFocus={Boolean(user)}
          visibilityToggleButtonProps={{ "aria-label": i18n.t("Show the password"), "aria-hidden": undefined, tabIndex: 0 }} />
        {(failed || error) && <p role="alert" className={css.error}>{failed || error}</p>}
        <Button type="submit" fullWidth loading={isBusy} variant={page ? "default" : "filled"}>{i18n.t("Log in")}</Button>
      </form>
    </div>
  );
}
