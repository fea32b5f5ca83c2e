// Files in a storage: lists, contents, uploads that say how far they are.
import { useQuery } from "@tanstack/react-query";
import { answer, ApiError, http, own, type Schemas } from "@/api/client";
import { upload as put } from "@/api/upload";

export type FileEntry = Schemas["FileEntry"];
export const LIST_MAX = 2_000;

export function useFiles(storage: string, path: string) {
  return useQuery({
    queryKey: ["files", storage, path],
    queryFn: () => answer(http.GET("/api/v2/storages/{name}/files", { params: { path: { name: storage }, query: { path, limit: LIST_MAX } } })) as Promise<Schemas["FileList"]>,
    enabled: Boolean(storage),
  });
}

export function joined(path: string, name: string): string {
  return path ? `${path}/${name}` : name;
}

function addressOf(storage: string, path: string): string {
  return `/api/v2/storages/${encodeURIComponent(storage)}/files/${path.split("/").map(encodeURIComponent).join("/")}`;
}

/** Returns the content of a file, or its first bytes. */
export async function content(storage: string, path: string, bytesMax?: number): Promise<Blob> {
  const range: Record<string, string> = bytesMax ? { Range: `bytes=0-${bytesMax - 1}` } : {};
  const response = await fetch(addressOf(storage, path), { headers: { ...own(), ...range } });
  // An empty file has no first byte.
  if (response.status === 416) return new Blob();
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})));
  return response.blob();
}

export async function remove(storage: string, path: string, isDirectory: boolean): Promise<void> {
  const response = await fetch(`${addressOf(storage, path)}${isDirectory ? "?recursive=true" : ""}`, { method: "DELETE", headers: own() });
  if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})));
}

/** Uploads a file; `onProgress` gets the part that was sent, from 0 to 1. */
export function upload(storage: string, path: string, file: File, onProgress: (part: number) => void): Promise<void> {
  return put(addressOf(storage, path), file, { onProgress });
}
