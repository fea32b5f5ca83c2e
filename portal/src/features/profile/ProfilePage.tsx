// One's own account: groups, password, tokens of programs, logins, SSH keys, notifications, and quotas.
import { i18n } from "@lingui/core";
import { useOwnQuotas } from "@/api/cluster";
import { useMe, type User } from "@/api/session";
import { CopyCommand } from "@/ui/Copy";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Fact, Facts, Page } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { Email, Password } from "./Account";
import { Notifications } from "./Notifications";
import css from "./ProfilePage.module.css";
import { SshKeys } from "./SshKeys";
import { Tokens } from "./Tokens";

export default function ProfilePage() {
  const me = useMe().data;
  if (!me) return null;
  return (
    <Page title={i18n.t("Profile")} heading={me.username} lead={roleOf(me)} actions={<CopyCommand words={["user", "show", me.username]} />}>
      <div className={css.columns}>
        <div className={css.column}>
          <Tokens />
          <SshKeys username={me.username} />
          <Quotas />
        </div>
        <div className={css.column}>
          <Card title={i18n.t("Account")}>
            <Facts>
              <Fact name={i18n.t("Groups")}>{me.grouplist.join(", ") || "–"}</Fact>
              <Fact name={i18n.t("Virtual clusters")}>{me.admin ? i18n.t("all") : me.virtualCluster.join(", ") || "–"}</Fact>
              <Fact name={i18n.t("Storages")}>{me.storageConfig.join(", ") || "–"}</Fact>
            </Facts>
          </Card>
          <Email me={me} />
          <Notifications />
          {me.source === "local" && <Password me={me} />}
        </div>
      </div>
    </Page>
  );
}

function roleOf(me: User): string {
  if (me.admin) return i18n.t("Administrator of the platform");
  return me.viewer ? i18n.t("May look at everything and change nothing") : i18n.t("User of the platform");
}

function Quotas() {
  const quotas = useOwnQuotas();
  const of = (used: number, limit: number | null) => (limit === null ? `${used} / ∞` : `${used} / ${limit}`);
  return (
    <Card title={i18n.t("Quotas")} aside={<CopyCommand words={["quota", "show"]} />} flush>
      <Loaded query={quotas}>
        {(rows) => {
          if (!rows.length) return <Note icon="check" title={i18n.t("No quota limits you")}>{i18n.t("What your virtual clusters have is the only limit.")}</Note>;
          return (
            <Table label={i18n.t("Quotas")} heads={[i18n.t("Virtual cluster"), i18n.t("GPUs at once"), i18n.t("GPUs of a job"), i18n.t("Unfinished jobs"), i18n.t("GPU hours this month")]}>
              {rows.map((quota) => (
                <tr key={`${quota.virtualCluster}/${quota.user}`}>
                  <td>{quota.virtualCluster || i18n.t("all together")}</td>
                  <td>{of(quota.used.gpusRunning, quota.gpusRunning)}</td>
                  <td>{quota.gpusPerJob ?? "∞"}</td>
                  <td>{of(quota.used.jobsUnfinished, quota.jobsUnfinished)}</td>
                  <td>{of(Math.round(quota.used.gpuHoursThisMonth * 10) / 10, quota.gpuHoursPerMonth)}</td>
                </tr>
              ))}
            </Table>
          );
        }}
      </Loaded>
    </Card>
  );
}
