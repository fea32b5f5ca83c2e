// The health of the platform's parts: whether each works, in a word, and what the server says of one that does not.
import { i18n } from "@lingui/core";
import { useQuery } from "@tanstack/react-query";
import { answer, ApiError, http } from "@/api/client";
import { SLOW_MS } from "@/api/queries";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded } from "@/ui/Loaded";
import { Card } from "@/ui/Page";
import css from "./MetricsPage.module.css";

/** Asks for the checks of the parts, or for what is wrong: a server that is not ready answers with 503. */
function useHealth() {
  return useQuery({
    queryKey: ["readiness"],
    queryFn: async () => {
      try {
        return { parts: Object.keys((await answer(http.GET("/readyz"))).checks) };
      } catch (error) {
        if (error instanceof ApiError && error.status === 503) return { wrong: error };
        throw error;
      }
    },
    refetchInterval: SLOW_MS,
  });
}

function partName(part: string): string {
  const names: Record<string, string> = {
    server: i18n.t("Server"), database: i18n.t("Database"), disk: i18n.t("Disk"), leader: i18n.t("Leader"), backend: i18n.t("Backend"),
  };
  return names[part] ?? part;
}

export function Health() {
  return (
    <Card title={i18n.t("Parts of the platform")} aside={<CopyCommand words={["admin", "doctor"]} />}>
      <Loaded query={useHealth()} rows={1}>
        {({ parts, wrong }) => (
          <ul className={css.parts}>
            {wrong && <li data-bad><Icon name="warn" size={16} /><span>{wrong.message}. {wrong.advice}</span></li>}
            {parts?.map((part) => <li key={part}><Icon name="check" size={16} /><strong>{partName(part)}</strong><span>{i18n.t("works")}</span></li>)}
          </ul>
        )}
      </Loaded>
    </Card>
  );
}
