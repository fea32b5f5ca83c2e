// The command that writes an item as the form does.
import type { Kind, Text } from "./queries";

export interface Written {
  title: string;
  summary: string;
  description: string;
  protocol: string;
  storage: string;
  path: string;
  address: string;
  categories: readonly string[];
  tags: readonly string[];
  visibility: Text["visibility"];
  groups: readonly string[];
  virtualClusters: readonly string[];
  comment: string;
}

/** Returns the command's words; the job file and the description are files of the user, named by what they hold. */
export function writeCommand(name: string, text: Written, kind: Kind | null, isOfficial: boolean): string[] {
  const option = (flag: string, ...values: readonly string[]) => values.filter(Boolean).flatMap((value) => [flag, value]);
  return [
    "market", kind ? "publish" : "edit", name || "NAME",
    ...(kind && kind !== "template" ? ["--kind", kind] : []),
    ...option("--title", text.title), ...option("--summary", text.summary),
    ...option("--description", text.description && "DESCRIPTION.md"), ...option("--file", text.protocol && "JOB.yaml"),
    ...option("--storage", text.storage), ...option("--path", text.path), ...option("--address", text.address),
    ...option("--category", ...text.categories), ...option("--tag", ...text.tags),
    ...(text.visibility === "shared" ? [...option("--group", ...text.groups), ...option("--vc", ...text.virtualClusters)] : ["--visibility", text.visibility]),
    ...(isOfficial ? ["--official"] : []), ...option("--comment", text.comment),
  ];
}
