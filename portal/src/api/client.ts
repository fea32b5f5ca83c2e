// The one way to the server: typed by its OpenAPI document, with the login and every error as one kind.
import { EventSource } from "eventsource";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";
import { changedSomething, sharedFetch } from "./shared";

export type Schemas = components["schemas"];
export type Fault = Schemas["Fault"];

/** An answer that is not a success, with what the server says to do next; status 0 when there was no answer. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly advice: string;
  readonly faults: readonly Fault[];

  constructor(status: number, body: Partial<Schemas["Error"]>) {
    super(body.message ?? `the server answered with status ${status}`);
    this.status = status;
    this.code = body.code ?? "UnknownError";
    this.advice = body.advice ?? "";
    this.faults = body.faults ?? [];
  }

  /** Whether the same request may succeed later. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

type Listener = () => void;
const onExpired = new Set<Listener>();

/** Calls a listener whenever the server says that the login is over. */
export function whenLoginEnds(listener: Listener): () => void {
  onExpired.add(listener);
  return () => onExpired.delete(listener);
}

/** Says to every listener that the login is over. */
export function ended(): void {
  for (const each of onExpired) each();
}

// Half of the login's token. The other half is in a cookie, which also servers on other ports of this host receive; this
// half only pages of this origin can read.
const PAGE_KEY = "pai-page-key";

const onPageKey = new Set<Listener>();

/** Keeps the page's half of a login for every tab; forgets it without one. */
export function keepPageKey(key?: string): void {
  if (key) localStorage.setItem(PAGE_KEY, key);
  else localStorage.removeItem(PAGE_KEY);
  for (const each of onPageKey) each();
}

/** Returns the page's half of the login, "" without one. */
export function pageKey(): string {
  return localStorage.getItem(PAGE_KEY) ?? "";
}

/** Calls a listener when a login of this tab or of another one begins or ends. */
export function whenPageKeyChanges(listener: Listener): () => void {
  const elsewhere = (event: StorageEvent) => {
    if (event.key === PAGE_KEY) listener();
  };
  onPageKey.add(listener);
  addEventListener("storage", elsewhere);
  return () => {
    onPageKey.delete(listener);
    removeEventListener("storage", elsewhere);
  };
}

const KEY_HEADER = "X-Pai-Page-Key";

/** Returns the header that the server asks for beside the cookie. */
export function own(): Record<string, string> {
  return { [KEY_HEADER]: pageKey() };
}

/** Sends a request with this page's half; a question again if another login replaced it meanwhile, here or in another tab. */
async function sendOwn(request: Request, send: (request: Request) => Promise<Response>): Promise<Response> {
  const key = pageKey();
  request.headers.set(KEY_HEADER, key);
  const again = request.method === "GET" ? request.clone() : undefined;
  const response = await send(request);
  if (response.status !== 401 || !again || pageKey() === key) return response;
  again.headers.set(KEY_HEADER, pageKey());
  return send(again);
}

export const http = createClient<paths>({ fetch: (request) => sendOwn(request, sharedFetch) });
http.use({
  onResponse({ request }) {
    if (request.method !== "GET") changedSomething();
  },
});

/** Returns the document of an answer; throws ApiError for any other answer, and for none. */
export async function answer<T>(asked: Promise<{ data?: T; error?: unknown; response: Response }>): Promise<T> {
  let got: { data?: T; error?: unknown; response: Response };
  try {
    got = await asked;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "Unreachable", message: "the server cannot be reached" });
  }
  if (got.response.ok) return got.data as T;
  const body = typeof got.error === "object" && got.error !== null ? (got.error as Partial<Schemas["Error"]>) : {};
  if (got.response.status === 401 && !got.response.url.includes("/authn/")) ended();
  throw new ApiError(got.response.status, body);
}

/** Returns the text of a file or a log; throws ApiError as `answer` does. */
export async function answerText(path: string, signal?: AbortSignal): Promise<{ text: string; headers: Headers }> {
  const asked = sendOwn(new Request(path, { signal }), fetch);
  const got = await answer(
    asked.then(async (response) => {
      if (response.ok) return { data: { text: await response.text(), headers: response.headers }, response };
      return { error: await response.json().catch(() => ({})), response };
    }),
  );
  return got;
}

/** Sends a job file as text. */
export async function sendText<T>(path: string, text: string, headers: Record<string, string> = {}): Promise<T> {
  const asked = fetch(path, { method: "POST", body: text, headers: { ...own(), "Content-Type": "text/yaml", ...headers } });
  return answer<T>(
    asked.then(async (response) => {
      changedSomething();
      const body = (await response.json().catch(() => ({}))) as T;
      return response.ok ? { data: body, response } : { error: body, response };
    }),
  );
}

/** Opens a stream of events; the browser's own EventSource cannot send the page's half of the login. */
export function events(path: string): EventSource {
  return new EventSource(path, {
    fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, ...own() } }),
  });
}
