// The files of a storage: a directory at a time, with upload, download, preview and removal.
import { i18n } from "@lingui/core";
import { Button, Progress } from "@mantine/core";
import { useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import type { Schemas } from "@/api/client";
import { useMe } from "@/api/session";
import { useAddress } from "@/ui/address";
import { size } from "@/ui/amount";
import { Ask } from "@/ui/Ask";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import { notify, notifyError } from "@/ui/notices";
import { Card } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { Ago } from "@/ui/time";
import { visible } from "@/ui/visible";
import { content, joined, LIST_MAX, remove, upload, useFiles, type FileEntry } from "./files";
import { Preview } from "./Preview";
import css from "./StoragesPage.module.css";

// A browser holds what it downloads with a login in memory, or on its disk; the command line has no limit.
const DOWNLOAD_MAX = 2 * 1024 ** 3;

export function Browser({ storage }: { storage: Schemas["StorageEntry"] }) {
  const [query, change] = useAddress();
  const isAdmin = useMe().data?.admin;
  const [removed, setRemoved] = useState<FileEntry | null>(null);
  const queries = useQueryClient();
  const path = query["path"] ?? "";
  const shown = query["file"] ?? "";
  const files = useFiles(storage.name, path);
  const again = () => queries.invalidateQueries({ queryKey: ["files", storage.name] });
  const download = async (entry: FileEntry) => {
    try {
      const url = URL.createObjectURL(await content(storage.name, joined(path, entry.name)));
      const link = document.createElement("a");
      link.href = url;
      link.download = entry.name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    } catch (error) {
      notifyError(error);
    }
  };
  return (
    <Card title={<Path storage={storage.name} path={path} />} aside={<span className={css.bar}>{!storage.readOnly && <Upload storage={storage.name} path={path} onDone={again} />}{isAdmin && <Button size="xs" variant="default" leftSection={<Icon name="settings" size={15} />} onClick={() => change({ manage: storage.name }, { push: true })}>{i18n.t("Manage")}</Button>}<CopyCommand words={["storage", "ls", storage.name, ...(path ? [path] : [])]} /></span>} flush>
      <Loaded query={files} rows={6}>
        {(list) => (
          <>
            {!list.entries.length && <Note icon="storage" title={i18n.t("This folder is empty")}>{storage.readOnly ? "" : i18n.t("Upload files here, or let a job write them.")}</Note>}
            {list.entries.length > 0 && (
              <Table label={i18n.t("Files")} heads={[i18n.t("Name"), i18n.t("Size"), i18n.t("Changed"), ""]}>
                {list.entries.map((entry) => (
                  <tr key={entry.name}>
                    <td>
                      {entry.type === "directory" ? (
                        <Link to="/storages" query={{ storage: storage.name, path: joined(path, entry.name) }}>{visible(entry.name)}/</Link>
                      ) : (
                        <button type="button" className={css.file} onClick={() => change({ file: entry.name }, { push: true })}>{visible(entry.name)}</button>
                      )}
                    </td>
                    <td className={css.whole}>{entry.type === "file" ? size(entry.size) : "–"}</td>
                    <td><Ago ms={entry.modifiedTime} /></td>
                    <td className={css.whole}>
                      {entry.type === "file" && entry.size <= DOWNLOAD_MAX && <Button size="compact-xs" variant="subtle" onClick={() => void download(entry)} aria-label={i18n.t("Download {name}", { name: visible(entry.name) })}>{i18n.t("Download")}</Button>}
                      {entry.type === "file" && entry.size > DOWNLOAD_MAX && <CopyCommand words={["storage", "download", storage.name, joined(path, entry.name)]} />}
                      {!storage.readOnly && <Button size="compact-xs" variant="subtle" color="red" onClick={() => setRemoved(entry)} aria-label={i18n.t("Remove {name}", { name: visible(entry.name) })}>{i18n.t("Remove")}</Button>}
                    </td>
                  </tr>
                ))}
              </Table>
            )}
            {list.totalCount > LIST_MAX && <p className={css.dim}>{i18n.t("The first {shown} of {count} entries.", { shown: LIST_MAX, count: list.totalCount })}</p>}
          </>
        )}
      </Loaded>
      {shown && <Preview storage={storage.name} path={joined(path, shown)} entry={files.data?.entries.find((one) => one.name === shown)} onClose={() => change({ file: "" })} />}
      {removed && (
        <Ask title={i18n.t("Remove {name}?", { name: visible(removed.name) })} verb={i18n.t("Remove")} command={["storage", "rm", storage.name, joined(path, removed.name)]} onClose={() => setRemoved(null)}
          act={async () => { await remove(storage.name, joined(path, removed.name), removed.type === "directory"); await again(); }}>
          <p>{removed.type === "directory" ? i18n.t("The folder goes with everything in it. This cannot be undone.") : i18n.t("This cannot be undone.")}</p>
        </Ask>
      )}
    </Card>
  );
}

function Path({ storage, path }: { storage: string; path: string }) {
  const parts = path ? path.split("/") : [];
  return (
    <span className={css.path}>
      <Link to="/storages" query={{ storage }}>{storage}</Link>
      {parts.map((part, index) => (
        <span key={`${index}/${part}`} className={css.path}>/<Link to="/storages" query={{ storage, path: parts.slice(0, index + 1).join("/") }}>{visible(part)}</Link></span>
      ))}
    </span>
  );
}

function Upload({ storage, path, onDone }: { storage: string; path: string; onDone: () => Promise<unknown> }) {
  const input = useRef<HTMLInputElement>(null);
  const [part, setPart] = useState<number | null>(null);
  const send = async (files: FileList | null) => {
    const all = [...(files ?? [])];
    const total = all.reduce((sum, file) => sum + file.size, 0) || 1;
    let before = 0;
    try {
      for (const file of all) {
        setPart(before / total);
        await upload(storage, joined(path, file.name), file, (sent) => setPart((before + sent * file.size) / total));
        before += file.size;
      }
      if (all.length) notify(i18n.t("{count, plural, one {# file was uploaded} other {# files were uploaded}}", { count: all.length }));
    } catch (error) {
      notifyError(error);
    }
    setPart(null);
    if (input.current) input.current.value = "";
    await onDone();
  };
  return (
    <>
      <input ref={input} type="file" multiple hidden onChange={(event) => void send(event.target.files)} aria-label={i18n.t("Files to upload")} />
      {part === null ? (
        <Button size="xs" leftSection={<Icon name="up" size={15} />} onClick={() => input.current?.click()}>{i18n.t("Upload")}</Button>
      ) : (
        <Progress className={css.progress} value={part * 100} aria-label={i18n.t("Upload")} />
      )}
    </>
  );
}
