// The table: only the rows in view exist.
import { i18n } from "@lingui/core";
import { Checkbox, Menu, ActionIcon } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { useEffect, useState, type CSSProperties, type ReactNode } from "react";
import { fullName, type JobsQuery, type JobSummary } from "@/api/jobs";
import type { Query } from "@/ui/address";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { Problem } from "@/ui/Loaded";
import { StateBadge } from "@/ui/State";
import { Ago, Span } from "@/ui/time";
import { visible } from "@/ui/visible";
import { useWindow } from "@/ui/window";
import { hasArrays, orderOf, type Sort } from "./filters";
import css from "./JobsPage.module.css";
import { useRows } from "./rows";
import { SweepCell, SweepChoice } from "./Sweeps";

interface Column {
  key: string;
  name: () => string;
  width: string;
  px: number;
  sort?: Sort;
  isEnd?: boolean;
  isSmall?: boolean;
  show: (job: JobSummary) => ReactNode;
}

const COLUMNS: readonly Column[] = [
  { key: "state", name: () => i18n.t("State"), width: "136px", px: 136, sort: "state", isSmall: true, show: (job) => <StateBadge state={job.state} /> },
  { key: "name", name: () => i18n.t("Name"), width: "minmax(150px, 2fr)", px: 150, sort: "jobName", isSmall: true, show: (job) => <Name job={job} /> },
  { key: "user", name: () => i18n.t("User"), width: "minmax(90px, 1fr)", px: 90, sort: "username", show: (job) => job.username },
  { key: "vc", name: () => i18n.t("Virtual cluster"), width: "minmax(132px, 1fr)", px: 132, sort: "vc", show: (job) => job.virtualCluster },
  { key: "submitted", name: () => i18n.t("Submitted"), width: "118px", px: 118, sort: "submissionTime", show: (job) => <Ago ms={job.submissionTime} /> },
  { key: "took", name: () => i18n.t("Ran for"), width: "96px", px: 96, isEnd: true, show: (job) => <Span from={job.state === "WAITING" ? null : job.launchedTime} to={job.completedTime} /> },
  { key: "gpus", name: () => i18n.t("GPUs"), width: "76px", px: 76, sort: "totalGpuNumber", isEnd: true, show: (job) => job.totalGpuNumber },
  { key: "tasks", name: () => i18n.t("Tasks"), width: "80px", px: 80, sort: "totalTaskNumber", isEnd: true, show: (job) => job.totalTaskNumber },
  { key: "retries", name: () => i18n.t("Retries"), width: "86px", px: 86, sort: "retries", isEnd: true, show: (job) => job.retries },
  { key: "priority", name: () => i18n.t("Priority"), width: "96px", px: 96, sort: "jobPriority", show: (job) => job.jobPriority ?? "default" },
];
const KEPT = "pai-jobs-columns";

function Name({ job }: { job: JobSummary }) {
  return (
    <>
      <Link className={css.name} to={`/jobs/${fullName(job)}`} title={job.name}>{job.name}</Link>
      {job.tags.slice(0, 3).map((tag) => <span key={tag} className={css.tag}>{visible(tag)}</span>)}
    </>
  );
}

interface JobTableProps {
  asked: JobsQuery;
  query: Query;
  change: (change: Query) => void;
  chosen: ReadonlySet<string>;
  choose: (name: string, is: boolean) => void;
  empty: ReactNode;
}

/** As many rows stand there, without text, until the first answer. */
const BLANK_ROWS = 12;

export function JobTable({ asked, query, change, chosen, choose, empty }: JobTableProps) {
  const [total, setTotal] = useState(0);
  const window_ = useWindow(total, 44);
  const rows = useRows(asked, window_.first, window_.last);
  const [hidden, setHidden] = useState<readonly string[]>(() => (localStorage.getItem(KEPT) ?? "retries,priority").split(","));
  const isNarrow = useMediaQuery("(max-width: 700px)", false, { getInitialValueInEffect: false });
  useEffect(() => setTotal(rows.total), [rows.total]);
  useEffect(() => localStorage.setItem(KEPT, hidden.join(",")), [hidden]);
  useEffect(() => {
    window_.box.current?.scrollTo({ top: 0 });
  }, [asked]);
  const columns = COLUMNS.filter((column) => (isNarrow ? column.isSmall : !hidden.includes(column.key)));
  const sizes = {
    "--columns": `40px ${columns.map((column) => column.width).join(" ")}`,
    "--width": isNarrow ? "100%" : `${40 + columns.reduce((sum, column) => sum + column.px, 0)}px`,
  } as CSSProperties;
  if (rows.error && rows.isLoading) return <Problem error={rows.error} again={rows.again} />;
  const indexes = Array.from({ length: rows.isLoading ? BLANK_ROWS : Math.max(window_.last - window_.first + 1, 0) }, (_, index) => window_.first + index);
  const isOneRow = hasArrays(query);
  const isEmpty = !rows.isLoading && rows.total === 0;
  const inView = indexes.map(rows.job).filter((job) => job !== undefined);
  return (
    <>
      <div ref={window_.box} className={css.table} style={sizes} onScroll={window_.onScroll} tabIndex={0}
        {...(isEmpty ? {} : { role: "table", "aria-label": i18n.t("Jobs"), "aria-rowcount": rows.isLoading ? -1 : rows.total + 1, "aria-busy": rows.isLoading })}>
        {isEmpty ? empty : <><div role="rowgroup">
          <div className={css.heads} role="row">
            <div className={css.cell} role="columnheader"><All jobs={inView} chosen={chosen} choose={choose} /></div>
            {columns.map((column) => <Head key={column.key} column={column} query={query} change={change} />)}
          </div>
        </div>
        <div className={css.inner} role="rowgroup" style={{ height: window_.drawn }}>
          {indexes.map((index) => (
            <Row key={index} job={rows.job(index)} index={index} top={window_.topOf(index)} columns={columns} chosen={chosen} choose={choose} isOneRow={isOneRow} />
          ))}
        </div>
        </>}
      </div>
      <div className={css.filters}>
        <span className={css.foot} role="status">{rows.isLoading ? i18n.t("Loading") : isOneRow ? i18n.t("{count, plural, one {# job or array} other {# jobs and arrays}}", { count: rows.total }) : i18n.t("{count, plural, one {# job} other {# jobs}}", { count: rows.total })}</span>
        {!isNarrow && <Columns hidden={hidden} setHidden={setHidden} />}
      </div>
    </>
  );
}

function Head({ column, query, change }: { column: Column; query: Query; change: (change: Query) => void }) {
  const order = orderOf(query);
  const isOn = column.sort === order.by;
  const sorted = isOn ? (order.isAscending ? "ascending" : "descending") : undefined;
  if (!column.sort) return <div className={css.cell} data-end={column.isEnd || undefined} role="columnheader"><span className={css.sort}>{column.name()}</span></div>;
  return (
    <div className={css.cell} data-end={column.isEnd || undefined} role="columnheader" aria-sort={sorted}>
      <button type="button" className={css.sort} data-on={isOn || undefined} onClick={() => change({ sort: `${column.sort},${isOn && !order.isAscending ? "ASC" : "DESC"}` })}>
        {column.name()}
        {isOn && <Icon name={order.isAscending ? "up" : "down"} size={13} />}
      </button>
    </div>
  );
}

interface RowProps {
  job: JobSummary | undefined;
  index: number;
  top: number;
  columns: readonly Column[];
  chosen: ReadonlySet<string>;
  choose: (name: string, is: boolean) => void;
  /** Whether an array of jobs is one row. */
  isOneRow: boolean;
}

function Row({ job, index, top, columns, chosen, choose, isOneRow }: RowProps) {
  const name = job ? fullName(job) : "";
  const sweep = job && isOneRow ? (job.sweep ?? "") : "";
  const isChosen = chosen.has(name);
  return (
    <div className={css.row} role="row" aria-rowindex={index + 2} data-chosen={isChosen || undefined} style={{ transform: `translateY(${top}px)` }}>
      <div className={css.cell} role="cell">
        {job && sweep && <SweepChoice sweep={`${job.username}~${sweep}`} chosen={chosen} choose={choose} />}
        {job && !sweep && <Checkbox size="xs" checked={isChosen} onChange={(event) => choose(name, event.target.checked)} aria-label={i18n.t("Choose {name}", { name })} />}
      </div>
      {columns.map((column) => (
        <div key={column.key} className={css.cell} role="cell" data-end={column.isEnd || undefined}>
          {!job ? <span className={css.blank} /> : sweep ? <SweepCell job={job} sweep={sweep} column={column} /> : column.show(job)}
        </div>
      ))}
    </div>
  );
}

function All({ jobs, chosen, choose }: { jobs: readonly JobSummary[]; chosen: ReadonlySet<string>; choose: (name: string, is: boolean) => void }) {
  const names = jobs.map(fullName);
  const count = names.filter((name) => chosen.has(name)).length;
  return (
    <Checkbox size="xs" aria-label={i18n.t("Choose all in view")} checked={count > 0 && count === names.length} indeterminate={count > 0 && count < names.length}
      onChange={(event) => names.forEach((name) => choose(name, event.target.checked))} />
  );
}

function Columns({ hidden, setHidden }: { hidden: readonly string[]; setHidden: (hidden: readonly string[]) => void }) {
  const toggle = (key: string) => setHidden(hidden.includes(key) ? hidden.filter((one) => one !== key) : [...hidden, key]);
  return (
    <Menu closeOnItemClick={false} withInitialFocusPlaceholder={false} withinPortal={false} shadow="md" position="top-start" transitionProps={{ duration: 80 }}>
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label={i18n.t("Choose columns")} title={i18n.t("Choose columns")}><Icon name="dots" /></ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {COLUMNS.slice(2).map((column) => (
          <Menu.CheckboxItem key={column.key} checked={!hidden.includes(column.key)} onChange={() => toggle(column.key)}>{column.name()}</Menu.CheckboxItem>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}
