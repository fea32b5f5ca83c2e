// The beginning of a text file, or a picture, without a download.
import { i18n } from "@lingui/core";
import { Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { size } from "@/ui/amount";
import { CopyCommand } from "@/ui/Copy";
import { Loaded } from "@/ui/Loaded";
import { visible } from "@/ui/visible";
import { content, type FileEntry } from "./files";
import css from "./StoragesPage.module.css";

const TEXT_BYTES = 64 * 1024;
const PICTURE_BYTES = 8 * 1024 ** 2;
const PICTURES: Record<string, string> = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp" };

interface Seen {
  text?: string;
  picture?: string;
  isWhole: boolean;
}

function dataUrl(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error ?? new Error("the picture cannot be read"));
    reader.readAsDataURL(blob);
  });
}

async function seen(storage: string, path: string, entry?: FileEntry): Promise<Seen> {
  const type = PICTURES[path.split(".").pop()?.toLowerCase() ?? ""];
  // The policy of this page allows pictures as data, not as blobs.
  if (type && entry && entry.size <= PICTURE_BYTES) return { picture: await dataUrl((await content(storage, path)).slice(0, PICTURE_BYTES, type)), isWhole: true };
  const bytes = new Uint8Array(await (await content(storage, path, TEXT_BYTES)).arrayBuffer());
  const isWhole = bytes.length < TEXT_BYTES;
  return bytes.includes(0) ? { isWhole } : { text: new TextDecoder().decode(bytes), isWhole };
}

export function Preview({ storage, path, entry, onClose }: { storage: string; path: string; entry?: FileEntry; onClose: () => void }) {
  const query = useQuery({ queryKey: ["files", storage, "seen", path, entry?.modifiedTime], queryFn: () => seen(storage, path, entry) });
  return (
    <Modal opened onClose={onClose} size="xl" title={visible(path)} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
      <Loaded query={query} rows={6}>
        {(found) => (
          <>
            {found.picture && <img className={css.picture} src={found.picture} alt={visible(path)} />}
            {found.text !== undefined && <pre className={css.preview} tabIndex={0}>{found.text}</pre>}
            {!found.picture && found.text === undefined && <p>{i18n.t("This is not text, and no picture that a browser shows.")}</p>}
            <p className={css.dim}>{entry && size(entry.size)}{!found.isWhole && found.text !== undefined && ` · ${i18n.t("only its beginning is shown")}`}</p>
            <CopyCommand words={["storage", "download", storage, path]} />
          </>
        )}
      </Loaded>
    </Modal>
  );
}
