// The list of jobs: any number of them, live, with its filters in the address.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { useCallback, useEffect, useMemo, useState } from "react";
import { useMe } from "@/api/session";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { LinkButton } from "@/ui/LinkButton";
import { Note } from "@/ui/Loaded";
import { Page } from "@/ui/Page";
import { BulkBar } from "./BulkBar";
import { Filters } from "./Filters";
import { commandOf, jobsQueryOf } from "./filters";
import css from "./JobsPage.module.css";
import { JobTable } from "./JobTable";
import { SweepBar } from "./Sweeps";

const KEPT = "pai-jobs-filters";
const CLEAN = { q: "", state: "", user: "", vc: "", priority: "", tag: "", node: "", sweep: "" };

export default function JobsPage() {
  const [query, change] = useAddress();
  const me = useMe().data;
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  useRemembered();
  const asked = useMemo(() => jobsQueryOf(query), [query]);
  const choose = useCallback((name: string, is: boolean) => {
    setChosen((old) => {
      const next = new Set(old);
      if (is) next.add(name);
      else next.delete(name);
      return next;
    });
  }, []);
  const isFiltered = Object.keys(CLEAN).some((key) => query[key]);
  const empty = isFiltered ? (
    <Note icon="filter" title={i18n.t("No job matches")} actions={<Button variant="default" size="xs" onClick={() => change(CLEAN)}>{i18n.t("Remove the filters")}</Button>}>
      {i18n.t("Other filters may find it; an archived job is not in the list.")}
    </Note>
  ) : (
    <Note icon="jobs" title={i18n.t("No jobs yet")} actions={<LinkButton to="/submit" icon="submit">{i18n.t("Submit a job")}</LinkButton>}>
      {i18n.t("The jobs of all users appear here.")}
    </Note>
  );
  return (
    <div className={css.page}>
      <Page wide title={i18n.t("Jobs")}
        actions={<><CopyCommand words={commandOf(query)} /><LinkButton to="/submit" icon="submit">{i18n.t("Submit a job")}</LinkButton></>}>
        <Filters query={query} change={change} me={me?.username ?? ""} />
        {query["sweep"] && query["user"] && <SweepBar user={query["user"]} name={query["sweep"]} leave={() => change({ sweep: "", user: "" })} />}
        {chosen.size > 0 && <BulkBar chosen={[...chosen]} clear={() => setChosen(new Set())} />}
        <JobTable asked={asked} query={query} change={change} chosen={chosen} choose={choose} empty={empty} />
      </Page>
    </div>
  );
}

/** Opens the list with the filters of the last time, where the address names none. */
function useRemembered(): void {
  const [query, change] = useAddress();
  useEffect(() => {
    const kept = localStorage.getItem(KEPT);
    if (kept && Object.keys(query).length === 0) change(Object.fromEntries(new URLSearchParams(kept)));
  }, []);
  useEffect(() => {
    localStorage.setItem(KEPT, new URLSearchParams(query).toString());
  }, [query]);
}
