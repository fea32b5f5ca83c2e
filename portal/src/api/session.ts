// Who is logged in. Half of the token is in a cookie that no script can read.
import { useQuery } from "@tanstack/react-query";
import { answer, ApiError, http, keepPageKey, type Schemas } from "./client";
import { queries } from "./queries";
import { sha256 } from "./random";

export type User = Schemas["User"];

export const ME = ["me"];

/** Returns the caller's account, or null without a login. */
export function useMe() {
  return useQuery({
    queryKey: ME,
    queryFn: async () => {
      try {
        return (await answer(http.GET("/api/v2/users/me"))) as User;
      } catch (error) {
        // A login that ends leaves the page as it is, with a dialog above it.
        if (error instanceof ApiError && error.status === 401 && !queries.getQueryData(ME)) return null;
        throw error;
      }
    },
    staleTime: 60_000,
  });
}

export async function logIn(username: string, password: string) {
  keepPageKey((await answer(http.POST("/api/v2/authn/browser/login", { body: { username, password } }))).pageKey);
}

export async function logInByCode(code: string, verifier: string) {
  keepPageKey((await answer(http.POST("/api/v2/authn/oidc/browser", { body: { code, verifier } }))).pageKey);
}

export async function logOut() {
  await answer(http.DELETE("/api/v2/authn/browser/logout"));
  keepPageKey();
}

const SECRET = "pai-sign-on-secret";

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Goes to the identity provider; `secret` proves on the way back that this browser began. */
export async function goToProvider(loginURI: string, back: string): Promise<void> {
  const secret = base64url(crypto.getRandomValues(new Uint8Array(32)));
  const digest = await sha256([new TextEncoder().encode(secret)]);
  sessionStorage.setItem(SECRET, secret);
  const query = new URLSearchParams({
    challenge: base64url(digest),
    redirect_uri: "/login",
    from: back,
  });
  location.assign(`${loginURI}?${query}`);
}

/** Returns the secret of a sign-on that this browser began, once. */
export function takeSecret(): string {
  const secret = sessionStorage.getItem(SECRET) ?? "";
  sessionStorage.removeItem(SECRET);
  return secret;
}

/** The address of a window that signs on and closes. */
export const WINDOW = "/login?window=begin";
export const WINDOW_DONE = "/login?window=done";

/** Signs on in a window of its own, so that what was typed on this page stays. */
export function signOnInWindow(): void {
  window.open(WINDOW, "pai-sign-on", "popup,width=520,height=720");
}
