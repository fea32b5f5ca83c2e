// The worker that all tabs share: one connection to the server, whose events go to every tab.
import { followChanges, type JobChanges } from "./changes";

export interface ToWorker {
  /** The page's half of the login, "" without one; undefined from a tab that closes. */
  key: string | undefined;
}

export type FromWorker = { isLive: boolean } | { changes: JobChanges };

const tabs = new Set<MessagePort>();
let key = "";
let stream: { close: () => void } | undefined;
let isLive = false;

function post(message: FromWorker, to: Iterable<MessagePort> = tabs): void {
  for (const tab of to) tab.postMessage(message);
}

function use(wanted: string): void {
  if (wanted === key && stream) return;
  key = wanted;
  stream?.close();
  stream = undefined;
  isLive = false;
  if (!key) return post({ isLive });
  stream = followChanges(key, {
    onChanges: (changes) => post({ changes }),
    onState: (is) => {
      isLive = is;
      post({ isLive });
    },
  });
}

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
  const tab = event.ports[0];
  if (!tab) return;
  tabs.add(tab);
  tab.onmessage = (said: MessageEvent<ToWorker>) => {
    if (said.data.key !== undefined) return use(said.data.key);
    tabs.delete(tab);
    if (!tabs.size) use("");
  };
  post({ isLive }, [tab]);
};
