// The marketplace: what users publish for each other, by kind, category and words.
import { i18n } from "@lingui/core";
import { Button, Group, Switch } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { answer, http } from "@/api/client";
import { useMe } from "@/api/session";
import { useAddress, type Query } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Link } from "@/ui/Link";
import { LinkButton } from "@/ui/LinkButton";
import { Loaded, Note } from "@/ui/Loaded";
import { notifyError } from "@/ui/notices";
import { Card, Page } from "@/ui/Page";
import { Search } from "@/ui/Search";
import css from "./MarketPage.module.css";
import { Counts, kindName, Marks } from "./names";
import { KINDS, PAGE, useCategories, useChanged, useItems, useMarketSettings, type Item } from "./queries";

type Change = (change: Query) => void;

export default function MarketPage() {
  const me = useMe().data;
  const [query, setQuery] = useAddress();
  // Another choice begins at its first page.
  const change: Change = (changed) => setQuery({ page: "", ...changed });
  const items = useItems(query, me?.username ?? "");
  const page = Math.max(1, Number(query["page"]) || 1);
  return (
    <Page wide title={i18n.t("Marketplace")} lead={i18n.t("Job templates, data sets and models that users publish for each other.")} actions={
      <>
        <CopyCommand words={["market", "list", ...(query["q"] ? [query["q"]] : [])]} />
        <LinkButton to="/publish" icon="submit">{i18n.t("Publish")}</LinkButton>
      </>
    }>
      <div className={css.grid}>
        <Side query={query} change={change} isAdmin={Boolean(me?.admin)} />
        <div className={css.main}>
          <div className={css.filters} role="search">
            <Search label={i18n.t("Search items")} className={css.search} query={query} change={change} />
            <label className={css.order}>
              <span>{i18n.t("First")}</span>
              <select className={css.choice} value={query["order"] ?? "stars"} onChange={(event) => change({ order: event.target.value === "stars" ? "" : event.target.value })}>
                <option value="stars">{i18n.t("most stars")}</option>
                <option value="uses">{i18n.t("most uses")}</option>
                <option value="newest">{i18n.t("newest")}</option>
                <option value="name">{i18n.t("by name")}</option>
              </select>
            </label>
          </div>
          <Loaded query={items} rows={6}>
            {({ items: found, total }) => found.length ? (
              <>
                <ul className={css.cards} aria-label={i18n.t("Items")}>{found.map((item) => <Entry key={item.name} item={item} />)}</ul>
                {total > PAGE && (
                  <div className={css.pages}>
                    <Button size="xs" variant="default" disabled={page <= 1} onClick={() => setQuery({ page: page > 2 ? String(page - 1) : "" }, { push: true })}>{i18n.t("Previous")}</Button>
                    <span>{i18n.t("{from} to {to} of {total}", { from: (page - 1) * PAGE + 1, to: (page - 1) * PAGE + found.length, total })}</span>
                    <Button size="xs" variant="default" disabled={page * PAGE >= total} onClick={() => setQuery({ page: String(page + 1) }, { push: true })}>{i18n.t("Next")}</Button>
                  </div>
                )}
              </>
            ) : <Card><Note icon="search" title={i18n.t("No items fit")}>{i18n.t("Choose fewer filters, or publish the first one.")}</Note></Card>}
          </Loaded>
        </div>
      </div>
    </Page>
  );
}

function Side({ query, change, isAdmin }: { query: Query; change: Change; isAdmin: boolean }) {
  const categories = useCategories().data ?? [];
  const choice = (key: string, value: string, text: string, count?: number) => (
    <li key={value}>
      <button type="button" className={css.pick} aria-pressed={(query[key] ?? "") === value} onClick={() => change({ [key]: value })}>
        <span>{text}</span>{count !== undefined && <small>{count}</small>}
      </button>
    </li>
  );
  return (
    <nav className={css.side} aria-label={i18n.t("Filters")}>
      <ul>
        {choice("show", "", i18n.t("All items"))}
        {choice("show", "official", i18n.t("Official"))}
        {choice("show", "mine", i18n.t("My own"))}
        {choice("show", "starred", i18n.t("With my star"))}
        {isAdmin && choice("show", "waiting", i18n.t("Waiting for approval"))}
      </ul>
      <h2>{i18n.t("Kind")}</h2>
      <ul>{choice("kind", "", i18n.t("Every kind"))}{KINDS.map((kind) => choice("kind", kind, kindName(kind)))}</ul>
      {categories.length > 0 && (
        <>
          <h2>{i18n.t("Category")}</h2>
          <ul>{choice("category", "", i18n.t("Every category"))}{categories.slice(0, 30).map((one) => choice("category", one.name, one.name, one.items))}</ul>
        </>
      )}
      {isAdmin && <Approval />}
    </nav>
  );
}

function Approval() {
  const settings = useMarketSettings();
  const changed = useChanged();
  const set = useMutation({
    mutationFn: (approval: boolean) => answer(http.PUT("/api/v2/market/settings", { body: { approval } })),
    onSuccess: () => changed(),
    onError: notifyError,
  });
  if (!settings.data) return null;
  return (
    <Group mt="md" gap={8} wrap="nowrap">
      <Switch size="sm" label={i18n.t("Items need approval")} checked={settings.data.approval} disabled={set.isPending} onChange={(event) => set.mutate(event.currentTarget.checked)} />
      <CopyCommand isSmall words={["market", "settings", "--approval", settings.data.approval ? "off" : "on"]} />
    </Group>
  );
}

function Entry({ item }: { item: Item }) {
  return (
    <li className={css.card}>
      <Marks item={item} />
      <h2 className={css.title}><Link to={`/market/${item.name}`}>{item.title}</Link></h2>
      <p className={css.summary}>{item.summary}</p>
      <div className={css.foot}><span className={css.author}>{item.author}</span><Counts item={item} /></div>
    </li>
  );
}
