// The message about the last week that managers and administrators may have sent to them, as it would be now.
import { i18n } from "@lingui/core";
import { Button } from "@mantine/core";
import { CopyCommand } from "@/ui/Copy";
import { Loaded } from "@/ui/Loaded";
import { Card } from "@/ui/Page";
import { useWeekly } from "./queries";
import css from "./ReportsPage.module.css";

export function Weekly({ isAsked, ask }: { isAsked: boolean; ask: (isAsked: boolean) => void }) {
  const found = useWeekly(isAsked);
  return (
    <Card title={i18n.t("Weekly message")} aside={<Button size="compact-xs" variant="default" aria-expanded={isAsked} onClick={() => ask(!isAsked)}>{isAsked ? i18n.t("Hide") : i18n.t("Preview")}</Button>}>
      <p className={css.dim}>{i18n.t("Managers of virtual clusters and administrators may have the hours of the last week sent to them every Monday.")}</p>
      {isAsked && (
        <Loaded query={found} rows={6}>
          {(message) => (
            <div className={css.weekly}>
              <strong>{message.subject}</strong>
              <pre tabIndex={0} aria-label={message.subject}>{message.text}</pre>
              <CopyCommand words={["alert", "subscribe", "weekly"]} />
            </div>
          )}
        </Loaded>
      )}
    </Card>
  );
}
