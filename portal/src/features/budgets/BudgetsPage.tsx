// Budgets of GPU hours: how much of each is used, and what happens at its end; administrators set them.
import { i18n } from "@lingui/core";
import { Button, Modal } from "@mantine/core";
import { useState } from "react";
import { answer, http } from "@/api/client";
import { useMe } from "@/api/session";
import { useAddress } from "@/ui/address";
import { Ask } from "@/ui/Ask";
import { CopyCommand } from "@/ui/Copy";
import { hours } from "@/ui/hours";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import { notify } from "@/ui/notices";
import { Card, Page } from "@/ui/Page";
import { Ago, When } from "@/ui/time";
import { BudgetForm } from "./BudgetForm";
import css from "./BudgetsPage.module.css";
import { optionOf, useBudgets, useChanged, type Budget } from "./queries";
import { kindName, periodName, then, toneOf } from "./words";

const NEW = "+";

function keyOf({ kind, name, period }: Budget): string {
  return `${kind}/${name}/${period}`;
}

export default function BudgetsPage() {
  const isAdmin = Boolean(useMe().data?.admin);
  const [query, change] = useAddress();
  const [removed, setRemoved] = useState<Budget | null>(null);
  const changed = useChanged();
  const budgets = useBudgets();
  const asked = query["budget"] ?? "";
  const chosen = budgets.data?.find((one) => keyOf(one) === asked);
  const close = () => change({ budget: "" });
  const remove = async ({ kind, name, period }: Budget) => {
    await answer(http.DELETE("/api/v2/budgets", { params: { query: { kind, name, period } } }));
    notify(i18n.t("The budget of {name} is removed", { name }));
    await changed();
  };
  return (
    <Page title={i18n.t("Budgets")} lead={i18n.t("GPU hours that users, groups and virtual clusters may use in a time. Beyond a budget, new jobs that ask for GPUs are refused.")} actions={
      <>
        <CopyCommand words={["budget", "list"]} />
        {isAdmin && <Button size="xs" leftSection={<Icon name="submit" size={15} />} onClick={() => change({ budget: NEW }, { push: true })}>{i18n.t("New budget")}</Button>}
      </>
    }>
      <Loaded query={budgets} rows={6}>
        {(all) => all.length ? (
          <ul className={css.budgets}>
            {[...all].sort((one, other) => part(other) - part(one) || keyOf(one).localeCompare(keyOf(other))).map((one) => (
              <li key={keyOf(one)}>
                <One budget={one} edit={isAdmin ? () => change({ budget: keyOf(one) }, { push: true }) : undefined} remove={() => setRemoved(one)} />
              </li>
            ))}
          </ul>
        ) : <Card><Note icon="chart" title={i18n.t("No budgets")}>{isAdmin ? i18n.t("GPU hours are not limited. Set a budget for a user, a group or a virtual cluster.") : i18n.t("Your GPU hours are not limited.")}</Note></Card>}
      </Loaded>
      {isAdmin && (asked === NEW || chosen) && (
        <Modal opened onClose={close} title={chosen ? i18n.t("Change the budget of {name}", { name: chosen.name }) : i18n.t("New budget")} closeOnClickOutside={false} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
          <BudgetForm key={asked} budget={chosen} onDone={close} />
        </Modal>
      )}
      {removed && (
        <Ask title={i18n.t("Remove the budget of {name}?", { name: removed.name })} verb={i18n.t("Remove")} command={["budget", "remove", optionOf(removed.kind), removed.name, "--period", removed.period]} onClose={() => setRemoved(null)} act={() => remove(removed)}>
          <p>{i18n.t("Its GPU hours are no longer limited. What was used stays in the reports.")}</p>
        </Ask>
      )}
    </Page>
  );
}

function part({ gpuHours, gpuHoursUsed }: Budget): number {
  return gpuHours > 0 ? gpuHoursUsed / gpuHours : 1;
}

function One({ budget, edit, remove }: { budget: Budget; edit?: () => void; remove: () => void }) {
  const tone = toneOf(budget);
  const percent = Math.round(100 * part(budget));
  const { name, kind, usedUpAt, renewsAt, contact } = budget;
  const used = i18n.t("{used} of {all} GPU hours are used ({percent} %)", { used: hours(budget.gpuHoursUsed), all: hours(budget.gpuHours), percent });
  const query: Record<string, string> | undefined = kind === "group" ? undefined : { [kind]: name };
  return (
    <Card title={<>{query ? <Link to="/jobs" query={query}>{name}</Link> : name} <small className={css.kind}>{kindName(kind)} · {periodName(budget.period)}</small></>} aside={edit && (
      <span className={css.actions}>
        <Button size="compact-xs" variant="default" aria-label={i18n.t("Change the budget of {name}", { name })} onClick={edit}>{i18n.t("Change")}</Button>
        <Button size="compact-xs" variant="default" aria-label={i18n.t("Remove the budget of {name}", { name })} onClick={remove}>{i18n.t("Remove")}</Button>
      </span>
    )}>
      <div className={css.bar} role="img" aria-label={used}>
        <i data-tone={tone} style={{ width: `${Math.min(percent, 100)}%` }} />
        {budget.warnAt.map((share) => <b key={share} style={{ left: `${100 * share}%` }} />)}
      </div>
      <p className={css.used}>
        <span className={css.word} data-tone={tone}>{{ good: i18n.t("within the budget"), warn: i18n.t("nearly used up"), bad: i18n.t("used up") }[tone]}</span>
        <span>{used}</span>
        {renewsAt !== null && <span className={css.dim}>{i18n.t("renews")} <When ms={renewsAt} /></span>}
      </p>
      {usedUpAt !== null && <p className={css.dim}>{i18n.t("The platform noticed it")} <Ago ms={usedUpAt} />.</p>}
      <p className={css.dim}>{i18n.t("Once it is used up:")} {then(budget)}{contact && ` ${i18n.t("Ask {contact} for more.", { contact })}`}</p>
    </Card>
  );
}
