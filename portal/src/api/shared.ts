// One answer for all tabs: what several pages ask between two changes is asked of the server once, by the worker that
// they share.

/** An answer of the server, as it goes from the worker to a page. */
export interface Answered {
  status: number;
  headers: [string, string][];
  body: string;
}

/** A page takes an answer of this age as fresh. */
const FRESH_MS = 1_000;
/** A worker that says nothing for this long is not waited for. */
const PATIENCE_MS = 10_000;
/** What the events of the stream keep right: an answer from before an event is not given after it. */
const IS_SHARED = /^\/api\/v2\/(jobs|nodes|virtual-clusters|quotas)(\/|\?|$)/;

/** Gives pages that ask the same the same answer, until it is old or forgotten. */
export function sharing(ask: (path: string, key: string) => Promise<Answered>) {
  const kept = new Map<string, { answer: Promise<Answered>; doneMs: number }>();
  return {
    get(path: string, key: string): Promise<Answered> {
      const now = performance.now();
      for (const [name, one] of kept) if (now - one.doneMs > FRESH_MS) kept.delete(name);
      const name = `${key} ${path}`;
      const before = kept.get(name);
      if (before) return before.answer;
      const fresh = { answer: ask(path, key), doneMs: Infinity };
      kept.set(name, fresh);
      // What failed is asked again at once.
      const failed = () => kept.get(name) === fresh && kept.delete(name);
      fresh.answer.then(() => (fresh.doneMs = performance.now()), failed);
      return fresh.answer;
    },
    /** Something changed: whoever asks now is answered by the server. */
    forget(): void {
      kept.clear();
    },
  };
}

/** The worker, as a page uses it. */
export interface Shared {
  ask: (path: string, key: string) => Promise<Answered>;
  forget: () => void;
}

let worker: Shared | undefined;

/** Asks through the worker from now on; by itself again without one. */
export function askThrough(found: Shared | undefined): void {
  worker = found;
}

/** Says that this page changed something at the server. */
export function changedSomething(): void {
  worker?.forget();
}

/** Sends a request as `fetch` does, over the worker where other tabs may ask the same. */
export async function sharedFetch(request: Request): Promise<Response> {
  const url = new URL(request.url);
  const path = url.pathname + url.search;
  if (!worker || request.method !== "GET" || !IS_SHARED.test(path)) return fetch(request);
  const key = request.headers.get("X-Pai-Page-Key") ?? "";
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLong = new Promise<undefined>((done) => (timer = setTimeout(() => done(undefined), PATIENCE_MS)));
  const found = await Promise.race([worker.ask(path, key), tooLong]).finally(() => clearTimeout(timer));
  if (!found) return fetch(request);
  const isEmpty = found.status === 204 || found.status === 304;
  const response = new Response(isEmpty ? null : found.body, { status: found.status, headers: found.headers });
  Object.defineProperty(response, "url", { value: request.url });
  return response;
}
