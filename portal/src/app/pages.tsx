// Every page: its address, its name, and the file that is loaded when it is opened. A new page is a line here and a
// folder in features.
import { i18n } from "@lingui/core";
import type { ComponentType } from "react";
import type { Schemas } from "@/api/client";
import type { IconName } from "@/ui/Icon";

/** What the navigation and the command palette have of a page. */
export interface Item {
  /** As the router reads it: `$job` is a part that differs. */
  path: string;
  name: () => string;
  icon: IconName;
}

export interface PageEntry extends Item {
  load: () => Promise<{ default: ComponentType }>;
  /** Where the navigation has it; the pages of "own" are in the user's menu. Pages of no group are reached from others. */
  group?: Group;
  /** Listed for administrators only; the server decides what others may see there. */
  isForAdmins?: boolean;
}

export type Group = "work" | "cluster" | "admin" | "own";

export const PAGES: readonly PageEntry[] = [
  { path: "/", name: () => i18n.t("Home"), icon: "home", group: "work", load: () => import("@/features/home/HomePage") },
  { path: "/jobs", name: () => i18n.t("Jobs"), icon: "jobs", group: "work", load: () => import("@/features/jobs/JobsPage") },
  { path: "/jobs/$job", name: () => i18n.t("Job"), icon: "jobs", load: () => import("@/features/job/JobPage") },
  { path: "/submit", name: () => i18n.t("Submit a job"), icon: "submit", group: "work", load: () => import("@/features/submit/SubmitPage") },
  { path: "/market", name: () => i18n.t("Marketplace"), icon: "market", group: "work", load: () => import("@/features/market/MarketPage") },
  { path: "/market/$item", name: () => i18n.t("Item"), icon: "market", load: () => import("@/features/market/ItemPage") },
  { path: "/publish", name: () => i18n.t("Publish an item"), icon: "market", load: () => import("@/features/market/PublishPage") },
  { path: "/storages", name: () => i18n.t("Storages"), icon: "storage", group: "work", load: () => import("@/features/storages/StoragesPage") },
  { path: "/cluster", name: () => i18n.t("Cluster"), icon: "cluster", group: "cluster", load: () => import("@/features/cluster/ClusterPage") },
  { path: "/queue", name: () => i18n.t("Queue"), icon: "clock", group: "cluster", load: () => import("@/features/queue/QueuePage") },
  { path: "/reports", name: () => i18n.t("Reports"), icon: "chart", group: "cluster", load: () => import("@/features/reports/ReportsPage") },
  { path: "/budgets", name: () => i18n.t("Budgets"), icon: "clock", group: "cluster", load: () => import("@/features/budgets/BudgetsPage") },
  { path: "/alerts", name: () => i18n.t("Alerts"), icon: "warn", group: "cluster", load: () => import("@/features/alerts/AlertsPage") },
  { path: "/what-if", name: () => i18n.t("What if"), icon: "chart", group: "cluster", isForAdmins: true, load: () => import("@/features/whatIf/WhatIfPage") },
  { path: "/users", name: () => i18n.t("Users"), icon: "users", group: "admin", isForAdmins: true, load: () => import("@/features/users/UsersPage") },
  { path: "/groups", name: () => i18n.t("Groups"), icon: "users", group: "admin", isForAdmins: true, load: () => import("@/features/groups/GroupsPage") },
  { path: "/virtual-clusters", name: () => i18n.t("Virtual clusters"), icon: "cluster", group: "admin", isForAdmins: true, load: () => import("@/features/virtualClusters/VirtualClustersPage") },
  { path: "/exit-specs", name: () => i18n.t("Exit specs"), icon: "warn", group: "admin", isForAdmins: true, load: () => import("@/features/exitSpecs/ExitSpecsPage") },
  { path: "/metrics", name: () => i18n.t("Metrics"), icon: "chart", group: "admin", isForAdmins: true, load: () => import("@/features/metrics/MetricsPage") },
  { path: "/audit", name: () => i18n.t("Audit log"), icon: "clock", group: "admin", isForAdmins: true, load: () => import("@/features/audit/AuditPage") },
  { path: "/announcements", name: () => i18n.t("Announcements"), icon: "announcement", group: "admin", isForAdmins: true, load: () => import("@/features/announcements/AnnouncementsPage") },
  { path: "/settings", name: () => i18n.t("Settings"), icon: "settings", group: "admin", isForAdmins: true, load: () => import("@/features/settings/SettingsPage") },
  { path: "/pages/$page", name: () => i18n.t("Plug-in page"), icon: "frame", load: () => import("@/features/pluginPages/PluginPage") },
  { path: "/profile", name: () => i18n.t("Profile"), icon: "user", group: "own", load: () => import("@/features/profile/ProfilePage") },
];

/** Returns the pages that the command palette finds. */
export function listed(isAdmin: boolean): readonly PageEntry[] {
  return PAGES.filter((page) => page.group && (isAdmin || !page.isForAdmins));
}

/** Returns the pages of other servers that this platform's administrators chose. */
export function pluggedIn(pages: readonly Schemas["PluginPage"][] = []): readonly Item[] {
  return pages.map((page) => ({ path: `/pages/${page.name}`, name: () => page.title, icon: "frame" }));
}
