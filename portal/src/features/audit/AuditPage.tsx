// Who changed what: for administrators everything, for others what they did and what was done to what is theirs.
import { i18n } from "@lingui/core";
import { Button, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import { SLOW_MS } from "@/api/queries";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { Ago } from "@/ui/time";
import css from "./AuditPage.module.css";

type Entry = Schemas["AuditEntry"];
const FILTERS = ["actor", "target", "action"] as const;
const PAGE = 100;

/** Returns what an entry recorded beside its request, as words. */
function detailOf(entry: Entry): string {
  return Object.entries(entry.detail)
    .filter(([name, value]) => name !== "request" && value !== null && value !== "")
    .map(([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(", ");
}

export default function AuditPage() {
  const [query, change] = useAddress();
  const given = FILTERS.filter((name) => query[name]);
  const filters = Object.fromEntries(given.map((name) => [name, name === "target" ? query[name] : [query[name]]]));
  const pages = useInfiniteQuery({
    queryKey: ["audit", filters],
    queryFn: ({ pageParam }) =>
      answer(http.GET("/api/v2/audit", { params: { query: { ...filters, limit: PAGE, ...(pageParam ? { before: pageParam } : {}) } } })) as Promise<Schemas["AuditPage"]>,
    initialPageParam: 0,
    getNextPageParam: (last) => last.next ?? undefined,
    refetchInterval: SLOW_MS,
  });
  const names = { actor: i18n.t("Who"), target: i18n.t("What it was done to"), action: i18n.t("Action") };
  return (
    <Page title={i18n.t("Audit log")} lead={i18n.t("Every request that changed something, or tried to.")} actions={<CopyCommand words={["audit", "list", ...given.flatMap((name) => [`--${name}`, query[name] ?? ""])]} />}>
      <Card flush>
        <div className={css.bar}>
          {FILTERS.map((name) => <TextInput key={name} size="xs" label={names[name]} placeholder={name === "action" ? "job.submit" : ""} value={query[name] ?? ""} onChange={(event) => change({ [name]: event.target.value })} />)}
        </div>
        <Loaded query={pages as never} rows={8}>
          {() => {
            const entries = pages.data?.pages.flatMap((page) => page.entries) ?? [];
            if (!entries.length) return <Note icon="search" title={i18n.t("Nothing is recorded")}>{i18n.t("No entry matches.")}</Note>;
            return (
              <Table label={i18n.t("Audit log")} heads={[i18n.t("Time"), names.actor, names.action, names.target, i18n.t("From"), i18n.t("Answer")]}>
                {entries.map((entry) => (
                  <tr key={entry.id}>
                    <td><Ago ms={entry.time} /></td>
                    <td>{entry.actor || "–"}<div className={css.detail}>{entry.via}</div></td>
                    <td>{entry.action}<div className={css.detail}>{detailOf(entry)}</div></td>
                    <td>{entry.target || "–"}</td>
                    <td>{entry.address}</td>
                    <td className={entry.status >= 400 ? css.refused : undefined}>{entry.status >= 400 ? i18n.t("refused ({status})", { status: entry.status }) : entry.status}</td>
                  </tr>
                ))}
              </Table>
            );
          }}
        </Loaded>
        {pages.hasNextPage && <div className={css.more}><Button size="xs" variant="default" loading={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>{i18n.t("Earlier entries")}</Button></div>}
      </Card>
    </Page>
  );
}
