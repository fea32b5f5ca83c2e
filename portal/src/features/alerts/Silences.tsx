// Silences: alerts that neither notify nor act for a time.
import { i18n } from "@lingui/core";
import { Button, Group } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { answer, http } from "@/api/client";
import { CopyCommand } from "@/ui/Copy";
import { Loaded, Note } from "@/ui/Loaded";
import { notifyError } from "@/ui/notices";
import { Card } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { When } from "@/ui/time";
import css from "./AlertsPage.module.css";
import { useChanged, useSilences } from "./queries";

export function Silences() {
  const changed = useChanged();
  const end = useMutation({ mutationFn: (id: string) => answer(http.DELETE("/api/v2/alerts/silences/{id}", { params: { path: { id } } })), onError: notifyError, onSettled: changed });
  return (
    <Card flush>
      <Loaded query={useSilences()} rows={4}>
        {(silences) => silences.length ? (
          <Table label={i18n.t("Silences")} heads={[i18n.t("Alerts"), i18n.t("Ends"), i18n.t("By"), i18n.t("Reason"), ""]}>
            {silences.map((one) => (
              <tr key={one.id}>
                <td>{one.matchers.map((each) => <code key={each} className={css.matcher}>{each}</code>)}</td>
                <td>{one.active ? <When ms={one.toTime} /> : <span className={css.dim}>{i18n.t("over")}</span>}</td>
                <td>{one.user}</td><td>{one.comment || "–"}</td>
                <td>{one.active && <Group gap={6} wrap="nowrap"><Button size="compact-xs" variant="default" loading={end.isPending && end.variables === one.id} onClick={() => end.mutate(one.id)}>{i18n.t("End")}</Button><CopyCommand isSmall words={["alert", "silence", "--end", one.id]} /></Group>}</td>
              </tr>
            ))}
          </Table>
        ) : <Note icon="check" title={i18n.t("Nothing is silenced")}>{i18n.t("Silence an alert while you work on its cause.")}</Note>}
      </Loaded>
    </Card>
  );
}
