// The file of a job, its secrets masked, or what differs in it from the file of another job.
import { i18n } from "@lingui/core";
import { Button, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useId, useState } from "react";
import { jobPage } from "@/api/jobs";
import { later } from "@/api/parts";
import { useAddress } from "@/ui/address";
import { copy, CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded } from "@/ui/Loaded";
import { Part } from "@/ui/Part";
import { notify } from "@/ui/notices";
import css from "./JobPage.module.css";
import { useConfig } from "./queries";
import { saved } from "@/ui/saving";

const Differences = later(() => import("./Differences"));

export function Config({ job, name }: { job: string; name: string }) {
  const [query, change] = useAddress();
  const against = query["against"] ?? "";
  return (
    <Loaded query={useConfig(job)} rows={12}>
      {(text) => (
        <>
          <div className={css.bar}>
            <Compare key={against} against={against} change={(other) => change({ against: other })} />
            <Button size="xs" variant="default" leftSection={<Icon name="copy" size={15} />} onClick={() => void copy(text).then(() => notify(i18n.t("Copied")))}>{i18n.t("Copy")}</Button>
            <Button size="xs" variant="default" leftSection={<Icon name="download" size={15} />} onClick={() => saved(`${name}.yaml`, text, "text/yaml")}>{i18n.t("Download")}</Button>
            <CopyCommand words={["job", "config", job]} />
            <span className={css.state}>{i18n.t("Secrets are masked.")}</span>
          </div>
          {against
            ? <Part><Differences job={job} text={text} other={against} /></Part>
            : <pre className={css.yaml} tabIndex={0} aria-label={i18n.t("Configuration")}>{text}</pre>}
        </>
      )}
    </Loaded>
  );
}

/** The name of a job to compare with; the server finds jobs for what is typed. */
function Compare({ against, change }: { against: string; change: (other: string) => void }) {
  const [typed, setTyped] = useState(against);
  const [word] = useDebouncedValue(typed.trim().split("~").at(-1) ?? "", 200);
  const list = useId();
  const found = useQuery({ queryKey: ["compared", word], queryFn: () => jobPage({ ...(word ? { keyword: word } : {}), order: "submissionTime,DESC" }, 0, 12) });
  return (
    <form className={css.compare} onSubmit={(event) => { event.preventDefault(); change(typed.trim()); }}>
      <TextInput size="xs" list={list} aria-label={i18n.t("Compare with job")} placeholder={i18n.t("Compare with job")} value={typed} onChange={(event) => setTyped(event.target.value)} />
      <datalist id={list}>{found.data?.data.map((job) => <option key={job.debugId} value={`${job.username}~${job.name}`} />)}</datalist>
      <Button size="xs" type="submit" variant="default">{i18n.t("Compare")}</Button>
      {against && <Button size="xs" variant="default" onClick={() => change("")}>{i18n.t("End the comparison")}</Button>}
    </form>
  );
}
