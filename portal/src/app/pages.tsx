// Every page: its address, its name, and the file that is loaded when it is opened. A new page is a line here and a
// folder in features.
import { i18n } from "@lingui/core";
import type { ComponentType } from "react";
import type { IconName } from "@/ui/Icon";

export interface PageEntry {
  /** As the router reads it: `$job` is a part that differs. */
  path: string;
  name: () => string;
  icon: IconName;
  load: () => Promise<{ default: ComponentType }>;
  /** In the navigation and the command palette; other pages are reached from them. */
  isListed: boolean;
  /** Listed for administrators only; the server decides what others may see there. */
  isForAdmins?: boolean;
}

export const PAGES: readonly PageEntry[] = [
  { path: "/", name: () => i18n.t("Home"), icon: "home", isListed: true, load: () => import("@/features/home/HomePage") },
  { path: "/jobs", name: () => i18n.t("Jobs"), icon: "jobs", isListed: true, load: () => import("@/features/jobs/JobsPage") },
  { path: "/jobs/$job", name: () => i18n.t("Job"), icon: "jobs", isListed: false, load: () => import("@/features/job/JobPage") },
  { path: "/submit", name: () => i18n.t("Submit a job"), icon: "submit", isListed: true, load: () => import("@/features/submit/SubmitPage") },
  { path: "/market", name: () => i18n.t("Marketplace"), icon: "market", isListed: true, load: () => import("@/features/market/MarketPage") },
  { path: "/market/$item", name: () => i18n.t("Item"), icon: "market", isListed: false, load: () => import("@/features/market/ItemPage") },
  { path: "/publish", name: () => i18n.t("Publish an item"), icon: "market", isListed: false, load: () => import("@/features/market/PublishPage") },
  { path: "/cluster", name: () => i18n.t("Cluster"), icon: "cluster", isListed: true, load: () => import("@/features/cluster/ClusterPage") },
  { path: "/what-if", name: () => i18n.t("What if"), icon: "chart", isListed: true, isForAdmins: true, load: () => import("@/features/whatIf/WhatIfPage") },
  { path: "/reports", name: () => i18n.t("Reports"), icon: "chart", isListed: true, load: () => import("@/features/reports/ReportsPage") },
  { path: "/budgets", name: () => i18n.t("Budgets"), icon: "clock", isListed: true, load: () => import("@/features/budgets/BudgetsPage") },
  { path: "/storages", name: () => i18n.t("Storages"), icon: "storage", isListed: true, load: () => import("@/features/storages/StoragesPage") },
  { path: "/users", name: () => i18n.t("Users"), icon: "users", isListed: true, isForAdmins: true, load: () => import("@/features/users/UsersPage") },
  { path: "/groups", name: () => i18n.t("Groups"), icon: "users", isListed: true, isForAdmins: true, load: () => import("@/features/groups/GroupsPage") },
  { path: "/virtual-clusters", name: () => i18n.t("Virtual clusters"), icon: "cluster", isListed: true, isForAdmins: true, load: () => import("@/features/virtualClusters/VirtualClustersPage") },
  { path: "/exit-rules", name: () => i18n.t("Exit rules"), icon: "warn", isListed: true, isForAdmins: true, load: () => import("@/features/exitSpecs/ExitSpecsPage") },
  { path: "/alerts", name: () => i18n.t("Alerts"), icon: "warn", isListed: true, load: () => import("@/features/alerts/AlertsPage") },
  { path: "/monitoring", name: () => i18n.t("Monitoring"), icon: "chart", isListed: true, isForAdmins: true, load: () => import("@/features/monitoring/MonitoringPage") },
  { path: "/audit", name: () => i18n.t("Audit log"), icon: "clock", isListed: true, isForAdmins: true, load: () => import("@/features/audit/AuditPage") },
  { path: "/profile", name: () => i18n.t("Profile"), icon: "user", isListed: true, load: () => import("@/features/profile/ProfilePage") },
];

export function listed(isAdmin: boolean): readonly PageEntry[] {
  return PAGES.filter((page) => page.isListed && (isAdmin || !page.isForAdmins));
}
