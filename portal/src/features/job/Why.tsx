// Why a job waits: the server's sentence, what would change it, who is ahead, and when it may start.
import { i18n } from "@lingui/core";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { CopyCommand } from "@/ui/Copy";
import { exact } from "@/ui/time";
import css from "./JobPage.module.css";
import { useWhy } from "./queries";

export function Why({ job }: { job: string }) {
  const why = useWhy(job, true).data;
  const waits = why?.waits ?? [];
  const held = why?.held.jobs ?? [];
  return (
    <section className={css.box} data-tone="wait" aria-live="polite">
      <h2><Icon name="clock" /> {i18n.t("Why it waits")}</h2>
      {!waits.length && <p>{i18n.t("It is about to be placed.")}</p>}
      {waits.slice(0, 5).map((wait) => (
        <div key={wait.code + wait.message}>
          <p><strong>{sentence(wait.message)}</strong></p>
          {wait.unblock && <p>{i18n.t("What would help: {unblock}.", { unblock: wait.unblock })}</p>}
          <p className={css.small}>
            {wait.position !== null && <>{i18n.t("Place {position} in its queue.", { position: wait.position })} </>}
            {wait.ahead.length > 0 && <>{i18n.t("Ahead of it:")} {wait.ahead.slice(0, 6).map((name, index) => <span key={name}>{index > 0 && ", "}<Link to={`/jobs/${name}`}>{name}</Link></span>)}{wait.ahead.length > 6 && ` +${wait.ahead.length - 6}`}. </>}
            {wait.estimate?.earliestTime && <>{i18n.t("It may start between {from} and {to}.", { from: exact(wait.estimate.earliestTime), to: wait.estimate.latestTime ? exact(wait.estimate.latestTime) : "?" })} ({wait.estimate.basis})</>}
            {wait.more > 0 && <> {i18n.t("{count, plural, one {# more task waits for the same.} other {# more tasks wait for the same.}}", { count: wait.more })}</>}
          </p>
        </div>
      ))}
      {held.length > 0 && (
        <p className={css.small}>
          {i18n.t("These hold what it needs:")} {held.slice(0, 6).map((one, index) => <span key={one.job}>{index > 0 && ", "}<Link to={`/jobs/${one.job}`}>{one.job}</Link> ({one.gpus ? i18n.t("{count, plural, one {# GPU} other {# GPUs}}", { count: one.gpus }) : i18n.t("{count, plural, one {# CPU} other {# CPUs}}", { count: one.cpus })})</span>)}
        </p>
      )}
      <div><CopyCommand words={["job", "why", job]} /></div>
    </section>
  );
}

/** Returns a reason of the scheduler as a sentence of its own. */
function sentence(reason: string): string {
  return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}${/[.!?]$/.test(reason) ? "" : "."}`;
}
