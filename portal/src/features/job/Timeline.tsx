// The attempts of a job on one scale of time: how long each waited and ran, and how it ended.
import { i18n } from "@lingui/core";
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Link } from "@/ui/Link";
import { Loaded } from "@/ui/Loaded";
import { Card } from "@/ui/Page";
import { isOver, StateBadge } from "@/ui/State";
import { exact, span, useNow } from "@/ui/time";
import css from "./JobPage.module.css";

type Attempt = Schemas["OldAttempt"];

export interface Bar {
  number: number;
  /** Percent of the whole time. */
  waitFrom: number;
  runFrom: number;
  to: number;
  waitedMs: number;
  ranMs: number | null;
}

/** Returns where the attempts are on a scale from the submission until now, oldest first. */
export function barsOf(attempts: readonly Pick<Attempt, "attemptIndex" | "jobStartedTime" | "attemptStartedTime" | "attemptCompletedTime">[], nowMs: number): Bar[] {
  const sorted = [...attempts].sort((one, other) => one.attemptIndex - other.attemptIndex);
  const begin = sorted[0]?.jobStartedTime ?? nowMs;
  const end = Math.max(...sorted.map((one) => one.attemptCompletedTime ?? nowMs), begin + 1);
  const percent = (ms: number) => (100 * (Math.min(Math.max(ms, begin), end) - begin)) / (end - begin);
  return sorted.map((one, index) => {
    const from = sorted[index - 1]?.attemptCompletedTime ?? begin;
    const to = one.attemptCompletedTime ?? nowMs;
    const started = one.attemptStartedTime;
    return { number: one.attemptIndex, waitFrom: percent(from), runFrom: percent(started ?? to), to: percent(to), waitedMs: Math.max((started ?? to) - from, 0), ranMs: started === null ? null : to - started };
  });
}

export function Timeline({ job }: { job: string }) {
  const attempts = useQuery({
    queryKey: ["job", job, "attempts"],
    queryFn: () => answer(http.GET("/api/v2/jobs/{job}/job-attempts", { params: { path: { job } } })) as Promise<Attempt[]>,
  });
  return (
    <Card title={i18n.t("Attempts")} aside={<CopyCommand words={["job", "show", job]} />}>
      <Loaded query={attempts} rows={4}>{(found) => <Rows attempts={found} />}</Loaded>
    </Card>
  );
}

function Rows({ attempts }: { attempts: readonly Attempt[] }) {
  const [query] = useAddress();
  const isLive = attempts.some((one) => !isOver(one.state));
  const now = useNow(isLive ? 1_000 : 3_600_000);
  const byNumber = new Map(attempts.map((one) => [one.attemptIndex, one]));
  return (
    <ol className={css.attempts}>
      {barsOf(attempts, now).reverse().map((bar) => {
        const attempt = byNumber.get(bar.number);
        if (!attempt) return null;
        const words = bar.ranMs === null ? i18n.t("waited {waited}", { waited: span(bar.waitedMs) }) : i18n.t("waited {waited}, ran {ran}", { waited: span(bar.waitedMs), ran: span(bar.ranMs) });
        return (
          <li key={bar.number}>
            <Link to="." query={{ ...query, tab: "tasks", attempt: attempt.isLatest ? "" : String(bar.number) }}>{i18n.t("Attempt {number}", { number: bar.number + 1 })}</Link>
            <StateBadge state={attempt.state} />
            <span className={css.track} role="img" aria-label={words} title={attempt.attemptStartedTime ? exact(attempt.attemptStartedTime) : ""}>
              <i data-part="wait" style={{ left: `${bar.waitFrom}%`, width: `${Math.max(bar.runFrom - bar.waitFrom, 0.3)}%` }} />
              {bar.ranMs !== null && <i data-part={attempt.state} style={{ left: `${bar.runFrom}%`, width: `${Math.max(bar.to - bar.runFrom, 0.5)}%` }} />}
            </span>
            <span className={css.state}>{words}{attempt.exitPhrase && ` · ${attempt.exitPhrase}`}</span>
          </li>
        );
      })}
    </ol>
  );
}
