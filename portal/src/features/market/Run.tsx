// A form of an item's parameters, from which a job is submitted.
import { i18n } from "@lingui/core";
import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { ApiError, answer, http, type Schemas } from "@/api/client";
import { uniqueId } from "@/api/random";
import { useVirtualClusters } from "@/api/cluster";
import { useMe } from "@/api/session";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { notify } from "@/ui/notices";
import css from "./ItemPage.module.css";
import { shown, useChanged, valueOf, type Detail } from "./queries";

export function Run({ item }: { item: Detail }) {
  const me = useMe().data;
  const vcs = Object.keys(useVirtualClusters().data ?? {}).filter((vc) => me?.admin || me?.virtualCluster.includes(vc)).sort();
  const [typed, setTyped] = useState<Record<string, string>>({});
  const [secrets, setSecrets] = useState<Record<string, string>>({});
  const [name, setName] = useState("");
  const [vc, setVc] = useState("");
  const [key, setKey] = useState(() => uniqueId());
  const navigate = useNavigate();
  const queries = useQueryClient();
  const changed = useChanged();
  const own = item.parameters.filter((one) => typed[one.name] !== undefined && typed[one.name] !== shown(one.value));
  const run = useMutation({
    mutationFn: () => {
      const parameters = Object.fromEntries(own.map((one) => [one.name, valueOf(typed[one.name] ?? "", one.value)]));
      const params = { path: { item: item.name }, header: { "idempotency-key": key } };
      return answer(http.POST("/api/v2/market/items/{item}/run", { params, body: { name, virtualCluster: vc, parameters, secrets, file: "" } })) as Promise<Schemas["MarketRun"]>;
    },
    onSuccess: async (job) => {
      notify(i18n.t("Submitted {name}", { name: `${job.user}~${job.name}` }));
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      void changed();
      await navigate({ to: `/jobs/${job.user}~${job.name}` } as never);
    },
    onError: () => setKey(uniqueId()),
  });
  const words = ["market", "run", item.name, ...own.flatMap((one) => ["--set", `${one.name}=${typed[one.name] ?? ""}`]), ...(vc ? ["--vc", vc] : []), ...(name ? ["--name", name] : [])];
  return (
    <form className={css.form} onSubmit={(event) => { event.preventDefault(); run.mutate(); }}>
      {item.parameters.map((one) => typeof one.value === "boolean" ? (
        <label key={one.name} className={css.label}>
          <span>{one.name}</span>
          <select className={css.choice} value={typed[one.name] ?? shown(one.value)} onChange={(event) => setTyped({ ...typed, [one.name]: event.target.value })}>
            <option>true</option><option>false</option>
          </select>
        </label>
      ) : (
        <TextInput key={one.name} label={one.name} value={typed[one.name] ?? shown(one.value)} onChange={(event) => setTyped({ ...typed, [one.name]: event.target.value })} spellCheck={false} />
      ))}
      {item.secrets.map((one) => (
        <PasswordInput key={one} label={one} description={i18n.t("A secret of your own; it is never shown again")} required autoComplete="off" value={secrets[one] ?? ""} onChange={(event) => setSecrets({ ...secrets, [one]: event.target.value })}
          visibilityToggleButtonProps={{ "aria-label": i18n.t("Show or hide the secret") }} />
      ))}
      <label className={css.label}>
        <span>{i18n.t("Virtual cluster")}</span>
        <select className={css.choice} value={vc} onChange={(event) => setVc(event.target.value)}>
          <option value="">{i18n.t("as in the job file")}</option>
          {vcs.map((one) => <option key={one}>{one}</option>)}
        </select>
      </label>
      <TextInput label={i18n.t("Name of the job")} placeholder={i18n.t("made up")} value={name} maxLength={255} onChange={(event) => setName(event.target.value)} spellCheck={false} />
      {run.error && <div role="alert" className={css.bad}>{run.error.message}{run.error instanceof ApiError && run.error.advice && `; ${run.error.advice}`}</div>}
      <div className={css.line}>
        <Button type="submit" loading={run.isPending} leftSection={<Icon name="play" />}>{i18n.t("Run")}</Button>
        <CopyCommand words={words} />
      </div>
    </form>
  );
}
