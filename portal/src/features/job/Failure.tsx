// Why a job failed: the cause, who is responsible, the lines of the log that show it, and what to do.
import { i18n } from "@lingui/core";
import type { JobDetail } from "@/api/jobs";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import css from "./JobPage.module.css";

function blame(type: string | undefined): string {
  if (!type) return "";
  if (type.startsWith("USER")) return i18n.t("It is the job's own doing.");
  if (type.startsWith("PLATFORM")) return i18n.t("It is the platform's doing, not the job's.");
  if (type.startsWith("RESOURCE")) return i18n.t("A resource ran out or was taken back.");
  return "";
}

export function Failure({ job }: { job: JobDetail }) {
  const status = job.jobStatus;
  const spec = status.appExitSpec;
  const runtime = status.appExitMessages?.runtime;
  const lines = runtime?.errorLogs.user || runtime?.errorLogs.platform || "";
  const advice = spec?.solution.length ? spec.solution : runtime?.solution ? [runtime.solution] : [];
  const role = status.appExitTriggerTaskRoleName;
  return (
    <section className={css.box} data-tone="fail">
      <h2><Icon name="fail" /> {spec?.reason || runtime?.reason || i18n.t("The job failed")}</h2>
      <p className={css.small}>
        {blame(spec?.type)} {spec && `${spec.phrase}, `}{i18n.t("exit code {code}", { code: status.appExitCode ?? spec?.code ?? "?" })}
        {role && <>. {i18n.t("It began in")} <Link to="." query={{ tab: "logs", task: `${role}/${status.appExitTriggerTaskIndex ?? 0}` }}>{role}-{status.appExitTriggerTaskIndex ?? 0}</Link></>}.
      </p>
      {lines && <pre tabIndex={0} aria-label={i18n.t("Lines of the log")}>{lines}</pre>}
      {!lines && status.appExitDiagnostics && <pre tabIndex={0} aria-label={i18n.t("Diagnostics")}>{status.appExitDiagnostics}</pre>}
      {advice.length > 0 && <ul className={css.small}>{advice.map((one) => <li key={one}>{one}</li>)}</ul>}
    </section>
  );
}
