// The list of files that were begun and not submitted.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { Ago } from "@/ui/time";
import type { Draft } from "./keptDrafts";
import css from "./SubmitPage.module.css";

interface DraftsProps {
  drafts: readonly Draft[];
  open: (draft: Draft) => void;
  remove: (draft: Draft) => void;
}

export function Drafts({ drafts, open, remove }: DraftsProps) {
  if (!drafts.length) return null;
  return (
    <details className={css.drafts}>
      <summary>{i18n.t("{count, plural, one {# draft} other {# drafts}}", { count: drafts.length })}</summary>
      <ul>
        {drafts.map((draft) => {
          const name = draft.name || i18n.t("without a name");
          return (
            <li key={draft.id} className={css.secret}>
              <Button size="compact-sm" variant="default" aria-label={i18n.t("Open the draft {name}", { name })} onClick={() => open(draft)}>{name}</Button>
              <span className={css.dim}><Ago ms={draft.ms} /></span>
              <Button size="compact-xs" variant="subtle" aria-label={i18n.t("Remove the draft {name}", { name })} onClick={() => remove(draft)}>{i18n.t("Remove")}</Button>
            </li>
          );
        })}
      </ul>
      <p className={css.dim}>{i18n.t("Drafts stay in this browser, without the values of secrets.")}</p>
    </details>
  );
}
