// The revisions of an item, and what each changed.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { Suspense } from "react";
import { later } from "@/api/parts";
import { useAddress } from "@/ui/address";
import { Loaded } from "@/ui/Loaded";
import { Ago } from "@/ui/time";
import css from "./ItemPage.module.css";
import { useRevision, useRevisions, type Text } from "./queries";

const Differing = later(() => import("@/ui/Differing"));

/** Returns all that a revision says, as one text to compare. */
function written(text: Text): string {
  const lines: [string, string][] = [
    ["title", text.title], ["summary", text.summary], ["visibility", text.visibility], ["storage", text.storage], ["path", text.path], ["address", text.address],
    ["categories", text.categories.join(", ")], ["tags", text.tags.join(", ")], ["groups", text.groups.join(", ")], ["virtualClusters", text.virtualClusters.join(", ")],
  ];
  return [...lines.filter(([, value]) => value).map(([name, value]) => `${name}: ${value}`), "", text.description, "", text.protocol, ""].join("\n");
}

export function Revisions({ name }: { name: string }) {
  const [query, change] = useAddress();
  const shown = Number(query["changes"]) || 0;
  return (
    <Loaded query={useRevisions(name)} rows={2}>
      {(edits) => (
        <ol className={css.edits}>
          {edits.map((one, at) => {
            const before = edits[at + 1];
            return (
              <li key={one.revision}>
                <strong>{one.revision}</strong> <Ago ms={one.time} /> · {one.user}{one.comment && ` · ${one.comment}`}
                {before && <> <Button size="compact-xs" variant="default" aria-expanded={shown === one.revision} onClick={() => change({ changes: shown === one.revision ? "" : String(one.revision) })}>{i18n.t("What changed in revision {revision}", { revision: one.revision })}</Button></>}
                {before && shown === one.revision && <Changes name={name} revision={one.revision} before={before.revision} />}
              </li>
            );
          })}
        </ol>
      )}
    </Loaded>
  );
}

function Changes({ name, revision, before }: { name: string; revision: number; before: number }) {
  const one = useRevision(name, revision);
  const other = useRevision(name, before);
  const named = (number: number) => i18n.t("revision {number}", { number });
  return (
    <Loaded query={one} rows={4}>
      {(own) => (
        <Loaded query={other} rows={4}>
          {(old) => (
            <Suspense fallback={<div role="status" aria-busy="true">{i18n.t("Loading")}</div>}>
              <Differing names={{ own: named(revision), other: named(before) }} own={written(own)} other={written(old)} />
            </Suspense>
          )}
        </Loaded>
      )}
    </Loaded>
  );
}
