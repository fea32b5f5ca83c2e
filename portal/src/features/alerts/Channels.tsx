// The channels by which messages leave the platform; their credentials are never shown.
import { i18n } from "@lingui/core";
import { Button, Group } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { answer, http } from "@/api/client";
import { CopyCommand } from "@/ui/Copy";
import { Loaded, Note } from "@/ui/Loaded";
import { notify, notifyError } from "@/ui/notices";
import { Card } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { Ago } from "@/ui/time";
import { useChannels } from "./queries";

export function Channels() {
  const send = useMutation({
    mutationFn: (name: string) => answer(http.POST("/api/v2/alert-channels/{name}/test", { params: { path: { name } } })),
    onSuccess: (_, name) => notify(i18n.t("A test message was taken by {name}", { name })),
    onError: notifyError,
  });
  return (
    <Card flush>
      <Loaded query={useChannels()} rows={4}>
        {(channels) => channels.length ? (
          <Table label={i18n.t("Channels")} heads={[i18n.t("Name"), i18n.t("Kind"), i18n.t("Goes to"), i18n.t("Changed"), ""]}>
            {channels.map((one) => (
              <tr key={one.name}>
                <td><strong>{one.name}</strong></td><td>{one.kind}</td>
                <td>{String(one.data["url"] ?? one.data["host"] ?? "–")}</td>
                <td>{one.changedTime ? <><Ago ms={one.changedTime} /> · {one.changedBy}</> : "–"}</td>
                <td><Group gap={6} wrap="nowrap"><Button size="compact-xs" variant="default" loading={send.isPending && send.variables === one.name} onClick={() => send.mutate(one.name)}>{i18n.t("Send a test")}</Button><CopyCommand isSmall words={["alert", "channel", one.name, "--test"]} /></Group></td>
              </tr>
            ))}
          </Table>
        ) : (
          <Note icon="submit" title={i18n.t("No channels yet")} actions={<CopyCommand words={["alert", "channel", "mail", "--kind", "mail", "--set", "host=mail.example.org", "--password-stdin"]} />}>
            {i18n.t("Alerts are shown here in any case. To have them sent, set a mail server, a webhook, Slack, Teams or an Alertmanager on the command line, which asks for its credentials.")}
          </Note>
        )}
      </Loaded>
    </Card>
  );
}
