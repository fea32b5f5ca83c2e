// The kinds of storages and their fields, as the server's schema has them; it checks what is sent.
import { i18n } from "@lingui/core";
import schema from "@/api/storageKinds.json";
import type { ApiError, Schemas } from "@/api/client";

interface Property {
  type: string;
  title: string;
  description?: string;
  default?: unknown;
  writeOnly?: boolean;
}

interface Alternative {
  properties: { type: { const: string }; data: { properties: Record<string, Property>; required?: string[] } };
}

export interface Field {
  key: string;
  type: "text" | "number" | "switch" | "secret";
  isRequired: boolean;
  /** What holds if it is left empty. */
  otherwise: string;
}

export type Values = Record<string, string>;
export type Detail = Schemas["StorageDetail"];

const KINDS = new Map((schema.oneOf as unknown as Alternative[]).map((one) => [one.properties.type.const, one.properties.data]));
export const KIND_NAMES: readonly string[] = [...KINDS.keys()];

/** Returns the fields of a kind: those that it must have first, and credentials last. */
export function fieldsOf(kind: string): Field[] {
  const data = KINDS.get(kind);
  const fields = Object.entries(data?.properties ?? {}).map(([key, one]): Field => ({
    key,
    type: one.writeOnly ? "secret" : one.type === "integer" ? "number" : one.type === "boolean" ? "switch" : "text",
    isRequired: data?.required?.includes(key) ?? false,
    otherwise: one.writeOnly || one.type === "boolean" ? "" : String(one.default ?? ""),
  }));
  const rank = (field: Field) => (field.isRequired ? 0 : field.type === "secret" ? 2 : 1);
  return fields.sort((one, other) => rank(one) - rank(other));
}

/** Returns the name of a kind for people. */
export function kindName(kind: string): string {
  const names: Record<string, string> = {
    local: i18n.t("directory of the nodes"), nfs: "NFS", smb: "SMB (Samba, Windows, Azure Files)", s3: "S3 (AWS, MinIO, Ceph)",
    claim: i18n.t("volume claim of Kubernetes"), azureBlob: "Azure Blob", webhdfs: "HDFS (WebHDFS)",
  };
  return names[kind] ?? kind;
}

/** Returns the name of a field for people. */
export function label(key: string): string {
  const names: Record<string, string> = {
    path: i18n.t("Path"), server: i18n.t("Server"), mountOptions: i18n.t("Mount options"), mountedAt: i18n.t("Where the nodes have it mounted"),
    share: i18n.t("Share"), username: i18n.t("User name"), user: i18n.t("User name"), domain: i18n.t("Domain"), port: i18n.t("Port"), password: i18n.t("Password"),
    bucket: i18n.t("Bucket"), prefix: i18n.t("Prefix"), endpoint: i18n.t("Endpoint"), region: i18n.t("Region"),
    accessKeyId: i18n.t("Access key ID"), secretAccessKey: i18n.t("Secret access key"), sessionToken: i18n.t("Session token"),
    containerName: i18n.t("Container"), accountName: i18n.t("Account"), accountKey: i18n.t("Account key"), accountSASToken: i18n.t("SAS token"),
    claim: i18n.t("Volume claim of Kubernetes"), useHttps: i18n.t("HTTPS"), delegationToken: i18n.t("Delegation token"),
  };
  return names[key] ?? key;
}

/** Returns what a storage has in its fields, without its credentials. */
export function valuesOf(data: Readonly<Record<string, unknown>>): Values {
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, String(value)]));
}

/** Returns the `data` of a storage as the server reads it; what is empty is left out. */
export function dataOf(kind: string, values: Values): Record<string, string | number | boolean> {
  const given = fieldsOf(kind).filter((field) => values[field.key]);
  return Object.fromEntries(given.map(({ key, type }) => {
    const value = values[key] ?? "";
    if (type === "switch") return [key, value === "true"];
    return [key, type === "number" && Number.isInteger(Number(value)) ? Number(value) : value];
  }));
}

/** Returns the faults that an answer names, by field; "" is the whole form. */
export function faultsOf(error: ApiError): Record<string, string> {
  if (error.code === "ConflictStorageError") return { name: error.message };
  const found: Record<string, string> = {};
  for (const { path, message } of error.faults) {
    const key = path === "data" ? "" : path.replace(/^data\./, "");
    found[key] = [found[key], message].filter(Boolean).join("; ");
  }
  return error.faults.length ? found : { "": [error.message, error.advice].filter(Boolean).join(". ") };
}

export interface Draft {
  name: string;
  kind: string;
  values: Values;
  description: string;
  readOnly: boolean;
  share: boolean;
  groups: readonly string[];
}

/** Returns the command that does what the form does; it asks for credentials. */
export function commandOf(draft: Draft, isNew: boolean): string[] {
  const secrets = fieldsOf(draft.kind).filter((field) => field.type === "secret").map((field) => field.key);
  const data = Object.entries(dataOf(draft.kind, draft.values));
  return [
    "storage", "add", draft.name || "NAME", draft.kind,
    ...data.filter(([key]) => !secrets.includes(key)).map(([key, value]) => `${key}=${value}`),
    ...data.filter(([key]) => secrets.includes(key)).flatMap(([key]) => ["--secret", key]),
    ...(draft.readOnly ? ["--read-only"] : isNew ? [] : ["--read-write"]),
    ...(draft.share ? (isNew ? [] : ["--shared"]) : ["--personal"]),
    ...(draft.description ? ["--description", draft.description] : []),
    ...draft.groups.flatMap((group) => ["--group", group]),
    ...(isNew ? [] : ["--replace"]),
  ];
}
