// What happened to a job, newest first.
import { i18n } from "@lingui/core";
import { TextInput } from "@mantine/core";
import { useState } from "react";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded, Note } from "@/ui/Loaded";
import { Card } from "@/ui/Page";
import { Ago } from "@/ui/time";
import css from "./JobPage.module.css";
import { useEvents } from "./queries";

const SHOWN_MAX = 300;

export function Events({ job }: { job: string }) {
  const [word, setWord] = useState("");
  const [isAll, setIsAll] = useState(true);
  return (
    <>
      <div className={css.bar}>
        <TextInput size="xs" leftSection={<Icon name="search" size={15} />} placeholder={i18n.t("Search events")} aria-label={i18n.t("Search events")} value={word} onChange={(event) => setWord(event.target.value)} />
        <select className={css.select} aria-label={i18n.t("Kind")} value={isAll ? "" : "Warning"} onChange={(event) => setIsAll(!event.target.value)}>
          <option value="">{i18n.t("All events")}</option>
          <option value="Warning">{i18n.t("Only warnings")}</option>
        </select>
        <CopyCommand words={["job", "events", job]} />
      </div>
      <Card>
        <Loaded query={useEvents(job)} rows={6}>
          {(events) => {
            const lower = word.toLowerCase();
            const found = events.data.filter((event) => (isAll || event.type === "Warning") && `${event.reason} ${event.message} ${event.taskName}`.toLowerCase().includes(lower));
            if (!found.length) return <Note icon="search" title={i18n.t("No such event")} />;
            return (
              <ol className={css.events}>
                {found.slice(0, SHOWN_MAX).map((event) => (
                  <li key={event.uid}>
                    <Ago ms={Date.parse(event.firstTimestamp)} />
                    <span className={css.dot} data-type={event.type} />
                    <div><strong>{event.reason}</strong>{event.taskName && <span className={css.state}> {event.taskName}{event.sourceHost && ` · ${event.sourceHost}`}</span>}<p>{event.message}</p></div>
                  </li>
                ))}
              </ol>
            );
          }}
        </Loaded>
      </Card>
    </>
  );
}
