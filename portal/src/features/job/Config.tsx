// The file of a job, its secrets masked.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { copy, CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded } from "@/ui/Loaded";
import { notify } from "@/ui/notices";
import css from "./JobPage.module.css";
import { useConfig } from "./queries";
import { saved } from "./saving";

export function Config({ job, name }: { job: string; name: string }) {
  return (
    <Loaded query={useConfig(job)} rows={12}>
      {(text) => (
        <>
          <div className={css.bar}>
            <span className={css.state}>{i18n.t("Secrets are masked.")}</span>
            <Button size="xs" variant="default" leftSection={<Icon name="copy" size={15} />} onClick={() => void copy(text).then(() => notify(i18n.t("Copied")))}>{i18n.t("Copy")}</Button>
            <Button size="xs" variant="default" leftSection={<Icon name="download" size={15} />} onClick={() => saved(`${name}.yaml`, text, "text/yaml")}>{i18n.t("Download")}</Button>
            <CopyCommand words={["job", "config", job]} />
          </div>
          <pre className={css.yaml} tabIndex={0} aria-label={i18n.t("Configuration")}>{text}</pre>
        </>
      )}
    </Loaded>
  );
}
