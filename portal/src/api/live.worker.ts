// The worker that all tabs share: one connection to the server, whose events go to every tab that somebody looks at, and
// one answer for all tabs that ask the same.
import { followChanges, gathering, type JobChanges } from "./changes";
import { sharing, type Answered } from "./shared";

export type ToWorker =
  /** The page's half of the login, "" without one; undefined from a tab that closes. */
  | { key: string | undefined }
  /** A question to the server, with its number in this tab. */
  | { ask: number; path: string; key: string }
  /** Whether somebody looks at this tab. Others hear of no changes: each would have to be woken for every event. */
  | { isSeen: boolean }
  /** This tab changed something at the server. */
  | { changed: true };

/** `answered` without an answer: the server could not be reached. */
export type FromWorker = { isLive: boolean } | { changes: JobChanges } | { answered: number; answer?: Answered };

const tabs = new Set<MessagePort>();
const hidden = new Set<MessagePort>();
let key = "";
let stream: { close: () => void } | undefined;
let isLive = false;

const shared = sharing(async (path, askedWith) => {
  const response = await fetch(path, { headers: { "X-Pai-Page-Key": askedWith } });
  return { status: response.status, headers: [...response.headers], body: await response.text() };
});
// Every visible tab hears of a change at the same moment, so that all ask before the next one.
const passOn = gathering((changes) => post({ changes }, [...tabs].filter((tab) => !hidden.has(tab))));

function post(message: FromWorker, to: Iterable<MessagePort> = tabs): void {
  for (const tab of to) tab.postMessage(message);
}

function use(wanted: string): void {
  if (wanted === key && stream) return;
  key = wanted;
  stream?.close();
  stream = undefined;
  isLive = false;
  shared.forget();
  if (!key) return post({ isLive });
  stream = followChanges(key, {
    onChanges: (changes) => {
      shared.forget();
      passOn(changes);
    },
    onState: (is) => {
      isLive = is;
      shared.forget();
      post({ isLive });
    },
  });
}

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
  const tab = event.ports[0];
  if (!tab) return;
  tabs.add(tab);
  tab.onmessage = ({ data }: MessageEvent<ToWorker>) => {
    if ("changed" in data) return shared.forget();
    if ("isSeen" in data) return void (data.isSeen ? hidden.delete(tab) : hidden.add(tab));
    if ("ask" in data) {
      const { ask, path } = data;
      shared.get(path, data.key).then((answer) => post({ answered: ask, answer }, [tab]), () => post({ answered: ask }, [tab]));
      return;
    }
    if (data.key !== undefined) {
      tabs.add(tab);
      return use(data.key);
    }
    tabs.delete(tab);
    hidden.delete(tab);
    if (!tabs.size) use("");
  };
  post({ isLive }, [tab]);
};
