// Words for the kinds and states of items, and the stars of one.
import { i18n } from "@lingui/core";
import { Button, Group } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { answer, http } from "@/api/client";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { notifyError } from "@/ui/notices";
import css from "./MarketPage.module.css";
import { useChanged, type Detail, type Item, type Kind } from "./queries";

export function kindName(kind: Kind): string {
  return kind === "template" ? i18n.t("Job template") : kind === "dataset" ? i18n.t("Data set") : i18n.t("Model");
}

/** The kind of an item, and what is not usual about it. */
export function Marks({ item }: { item: Item }) {
  return (
    <span className={css.marks}>
      <span className={css.mark}>{kindName(item.kind)}</span>
      {item.official && <span className={css.mark} data-tone="good">{i18n.t("Official")}</span>}
      {item.visibility === "private" && <span className={css.mark}>{i18n.t("Private")}</span>}
      {item.visibility === "shared" && <span className={css.mark}>{i18n.t("Shared")}</span>}
      {item.status === "pending" && <span className={css.mark} data-tone="warn">{i18n.t("Waits for approval")}</span>}
      {item.status === "rejected" && <span className={css.mark} data-tone="bad">{i18n.t("Rejected")}</span>}
    </span>
  );
}

export function Counts({ item }: { item: Item }) {
  return (
    <span className={css.counts}>
      <span>{i18n.t("{count, plural, one {# star} other {# stars}}", { count: item.stars })}</span>
      <span>{i18n.t("{count, plural, one {# use} other {# uses}}", { count: item.uses })}</span>
    </span>
  );
}

export function Star({ item }: { item: Item }) {
  const changed = useChanged();
  const rate = useMutation({
    mutationFn: () => {
      const params = { path: { item: item.name } };
      const asked = item.starred ? http.DELETE("/api/v2/market/items/{item}/star", { params }) : http.PUT("/api/v2/market/items/{item}/star", { params });
      return answer(asked) as Promise<Detail>;
    },
    onSuccess: changed,
    onError: notifyError,
  });
  return (
    <Group gap={6} wrap="nowrap">
      <Button size="xs" variant={item.starred ? "light" : "default"} aria-pressed={item.starred} leftSection={<Icon name="star" size={15} />} loading={rate.isPending} onClick={() => rate.mutate()}>
        {i18n.t("Star")} · {item.stars}
      </Button>
      <CopyCommand isSmall words={["market", "rate", item.name, ...(item.starred ? ["--remove"] : [])]} />
    </Group>
  );
}
