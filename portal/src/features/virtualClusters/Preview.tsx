// What a change of a guarantee would do, as the server says it before anything is saved.
import { i18n } from "@lingui/core";
import { useQuery } from "@tanstack/react-query";
import { answer, ApiError, http, type Schemas } from "@/api/client";
import { Link } from "@/ui/Link";
import { gained, type Gain } from "./gains";
import css from "./VirtualClustersPage.module.css";

const JOBS_SHOWN = 20;

/** Shows who would gain and lose, and which running jobs would lose their guarantee; an empty promise removes the virtual cluster. */
export function Preview({ name, promise }: { name: string; promise: string }) {
  const preview = useQuery({
    queryKey: ["promise-preview", name, promise],
    queryFn: () => answer(http.POST("/api/v2/virtual-clusters/{vc}/preview", { params: { path: { vc: name } }, body: { promise } })) as Promise<Schemas["PromisePreview"]>,
    retry: false,
    // Jobs start and end meanwhile.
    staleTime: 0,
    gcTime: 0,
  });
  if (preview.error)
    return (
      <div className={css.problems} role="alert">
        <strong>{i18n.t("This would be refused:")}</strong> {preview.error.message}{preview.error instanceof ApiError && preview.error.advice && `; ${preview.error.advice}`}
      </div>
    );
  if (!preview.data) return <p className={css.dim} role="status" aria-busy="true">{i18n.t("Asking what this would change")}</p>;
  const gains = gained(preview.data.shares);
  const { demoted, problems } = preview.data;
  return (
    <div className={css.preview} role="status">
      {gains.length ? <ul className={css.gains}>{gains.map((gain) => <GainLine key={gain.name} gain={gain} />)}</ul> : <p>{i18n.t("No virtual cluster would gain or lose anything.")}</p>}
      {demoted.length ? (
        <div className={css.problems}>
          <strong>{i18n.t("{count, plural, one {# running job} other {# running jobs}} would lose the guarantee, and run on until another job needs the place:", { count: demoted.length })}</strong>
          <ul>{demoted.slice(0, JOBS_SHOWN).map((job) => <li key={job}><Link to={`/jobs/${job}`}>{job}</Link></li>)}</ul>
          {demoted.length > JOBS_SHOWN && <p>{i18n.t("and {count} more", { count: demoted.length - JOBS_SHOWN })}</p>}
        </div>
      ) : <p className={css.dim}>{i18n.t("No running job would lose its guarantee.")}</p>}
      {problems.length > 0 && <div className={css.problems}><ul>{problems.map((problem) => <li key={problem}>{problem}</li>)}</ul></div>}
    </div>
  );
}

function GainLine({ gain }: { gain: Gain }) {
  const { name, before, after, unit } = gain;
  const change = `${after > before ? "+" : "−"}${Math.abs(after - before)}`;
  const values = { before, after };
  return (
    <li data-tone={after > before ? "good" : "bad"}>
      <strong>{name}</strong>
      <span>{unit === "gpu" ? i18n.t("{before} → {after} GPUs", values) : i18n.t("{before} → {after} CPUs", values)}</span>
      <span className={css.by}>{change}</span>
    </li>
  );
}
