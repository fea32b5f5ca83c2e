// The queue of a virtual cluster: which jobs wait, in order, and why. Managers drag a job to another place, or move it
// with the buttons of its row.
import { i18n } from "@lingui/core";
import { ActionIcon, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type DragEvent } from "react";
import { answer, http, type Schemas } from "@/api/client";
import { useVirtualClusters, type VirtualCluster } from "@/api/cluster";
import { whileLive } from "@/api/live";
import { LIVE_MS } from "@/api/queries";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { Ago } from "@/ui/time";
import { notifyError } from "@/ui/notices";
import { mayDrop, moveTo, type Move, type Queued } from "./moving";
import css from "./QueuePage.module.css";

const SHOWN = 200;

export default function QueuePage() {
  const [query, change] = useAddress();
  const clusters = useVirtualClusters();
  const vc = query["vc"] || busiest(clusters.data ?? {});
  return (
    <Page title={i18n.t("Queue")} lead={i18n.t("The jobs that wait in a virtual cluster, in the order in which they are considered.")} actions={<CopyCommand words={["vc", "queue", vc]} />}>
      <Loaded query={clusters} rows={6}>
        {(all) => (
          <Card flush title={<Select size="xs" aria-label={i18n.t("Virtual cluster")} value={vc} allowDeselect={false} data={Object.keys(all).sort()} onChange={(name) => change({ vc: name ?? "" })} />} aside={<Order order={all[vc]?.order} />}>
            <Queue key={vc} vc={vc} />
          </Card>
        )}
      </Loaded>
    </Page>
  );
}

/** Returns the virtual cluster with most jobs that wait. */
function busiest(all: Record<string, VirtualCluster>): string {
  const names = Object.keys(all).sort((one, other) => (all[other]?.waitingGangs ?? 0) - (all[one]?.waitingGangs ?? 0) || one.localeCompare(other));
  return names[0] ?? "default";
}

function Order({ order }: { order: string | undefined }) {
  const words: Record<string, string> = {
    fair: i18n.t("Who used less lately goes first."),
    fifo: i18n.t("The oldest job goes first."),
    shortest: i18n.t("The shortest job goes first."),
  };
  return <span className={css.dim}>{order ? words[order] : ""}</span>;
}

/** Returns what marks a button that has no effect now; it keeps the focus of who moves a job by keyboard. */
function unless(may: boolean) {
  return may ? {} : { "aria-disabled": true, "data-disabled": true };
}

function Queue({ vc }: { vc: string }) {
  const queries = useQueryClient();
  const [dragged, setDragged] = useState<number | null>(null);
  const [over, setOver] = useState<number | null>(null);
  const [done, setDone] = useState<Move | null>(null);
  const queue = useQuery({
    queryKey: ["virtual-clusters", "queue", vc],
    queryFn: () => answer(http.GET("/api/v2/virtual-clusters/{vc}/queue", { params: { path: { vc }, query: { limit: SHOWN } } })) as Promise<Schemas["VcQueue"]>,
    refetchInterval: () => whileLive(2 * LIVE_MS),
  });
  const move = useMutation({
    mutationFn: ({ job, beside, word }: Move) => answer(http.PUT("/api/v2/jobs/{job}/rank", { params: { path: { job } }, body: { [word]: beside } })),
    onSuccess: (_, moved) => setDone(moved),
    onError: notifyError,
    onSettled: () => queries.invalidateQueries({ queryKey: ["virtual-clusters", "queue", vc] }),
  });
  const put = (jobs: readonly Queued[], from: number, to: number) => {
    const wanted = mayDrop(jobs, from, to) ? moveTo(jobs, from, to) : null;
    if (wanted && !move.isPending) move.mutate(wanted);
  };
  return (
    <Loaded query={queue} rows={6}>
      {({ jobs, totalCount }) => {
        if (!jobs.length) return <Note icon="check" title={i18n.t("No job waits here")}>{i18n.t("What is submitted starts at once, as long as there is room.")}</Note>;
        const mayMove = jobs.some((job) => job.mayMove);
        const drop = (event: DragEvent, to: number) => {
          event.preventDefault();
          if (dragged !== null) put(jobs, dragged, to);
          setDragged(null);
          setOver(null);
        };
        return (
          <>
            <div className={css.said} role="status">
              {done ? <>{done.word === "before" ? i18n.t("{job} goes before {beside}.", { job: done.job, beside: done.beside }) : i18n.t("{job} goes after {beside}.", { job: done.job, beside: done.beside })} <CopyCommand words={["job", "move", done.job, `--${done.word}`, done.beside]} /></> : mayMove && i18n.t("Drag a job to another place, or use its arrows. A job that fits may still start before others that do not.")}
            </div>
            <Table label={i18n.t("Queue")} heads={[i18n.t("Place"), i18n.t("Job"), i18n.t("Priority"), i18n.t("Needs"), i18n.t("Waits since"), i18n.t("Why"), ""]}>
              {jobs.map((job, place) => (
                <tr key={job.job ?? `private ${job.position}`} className={css.row} draggable={job.mayMove && !move.isPending}
                  data-over={(over === place && dragged !== null && (place < dragged ? "before" : "after")) || undefined}
                  data-dragged={dragged === place || undefined}
                  onDragStart={(event) => { event.dataTransfer.effectAllowed = "move"; event.dataTransfer.setData("text/plain", job.job ?? ""); setDragged(place); }}
                  onDragOver={(event) => { if (dragged !== null && mayDrop(jobs, dragged, place)) { event.preventDefault(); setOver(place); } }}
                  onDragEnd={() => { setDragged(null); setOver(null); }}
                  onDrop={(event) => drop(event, place)}>
                  <td>{job.position}</td>
                  <td className={css.job}>{job.job ? <Link className={css.name} to={`/jobs/${job.job}`}>{job.job}</Link> : <span className={css.dim}>{i18n.t("a job of others")}</span>}</td>
                  <td>{job.priorityClass ?? job.priority}</td>
                  <td className={css.short}>{job.gpu ? i18n.t("{count, plural, one {# GPU} other {# GPUs}}", { count: job.gpu }) : i18n.t("{count, plural, one {# CPU} other {# CPUs}}", { count: job.cpu })}</td>
                  <td className={css.short}><Ago ms={job.submittedTime} /></td>
                  <td className={css.why}>{job.message}</td>
                  <td>
                    {job.mayMove && (
                      <span className={css.buttons}>
                        <ActionIcon variant="default" aria-label={i18n.t("Move {job} up", { job: job.job ?? "" })} {...unless(mayDrop(jobs, place, place - 1))} onClick={() => put(jobs, place, place - 1)}><Icon name="up" size={15} /></ActionIcon>
                        <ActionIcon variant="default" aria-label={i18n.t("Move {job} down", { job: job.job ?? "" })} {...unless(mayDrop(jobs, place, place + 1))} onClick={() => put(jobs, place, place + 1)}><Icon name="down" size={15} /></ActionIcon>
                      </span>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
            {totalCount > jobs.length && <p className={css.said}>{i18n.t("{count, plural, one {# more job waits behind these.} other {# more jobs wait behind these.}}", { count: totalCount - jobs.length })}</p>}
          </>
        );
      }}
    </Loaded>
  );
}
