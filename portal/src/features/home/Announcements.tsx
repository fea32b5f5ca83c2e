// What administrators tell all users now.
import { i18n } from "@lingui/core";
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import { SLOW_MS } from "@/api/queries";
import { Icon } from "@/ui/Icon";
import { When } from "@/ui/time";
import css from "./HomePage.module.css";

export function Announcements() {
  const found = useQuery({
    queryKey: ["announcements", "shown"],
    queryFn: () => answer(http.GET("/api/v2/announcements")) as Promise<Schemas["Announcement"][]>,
    refetchInterval: 6 * SLOW_MS,
  });
  if (!found.data?.length) return null;
  return (
    <ul className={css.announcements} aria-label={i18n.t("Announcements")}>
      {found.data.map((one) => (
        <li key={one.id} data-level={one.level}>
          <Icon name={one.level === "info" ? "announcement" : "warn"} />
          <div>
            <p>{one.text}</p>
            <small>{one.by} · <When ms={one.fromTime} /></small>
          </div>
        </li>
      ))}
    </ul>
  );
}
