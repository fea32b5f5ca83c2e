// Requests with a large body, which say how much of it was sent.
import { ApiError, ended, own, type Schemas } from "./client";

interface Options {
  /** Gets the part that was sent, from 0 to 1. */
  onProgress: (part: number) => void;
  signal?: AbortSignal;
}

/** Sends a body with PUT; throws ApiError as `answer` does. */
export function upload(address: string, body: Blob, { onProgress, signal }: Options): Promise<void> {
  return new Promise((resolve, reject) => {
    // `fetch` does not say how much of a body was sent.
    const request = new XMLHttpRequest();
    request.open("PUT", address);
    for (const [name, value] of Object.entries(own())) request.setRequestHeader(name, value);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onerror = () => reject(new ApiError(0, { code: "Unreachable", message: "the server cannot be reached" }));
    request.onabort = () => reject(new DOMException("the upload was stopped", "AbortError"));
    request.onload = () => {
      if (request.status < 300) return resolve();
      let refusal: Partial<Schemas["Error"]> = {};
      try {
        refusal = JSON.parse(request.responseText) as Partial<Schemas["Error"]>;
      } catch {
        // A proxy answered with something else.
      }
      if (request.status === 401) ended();
      reject(new ApiError(request.status, refusal));
    };
    signal?.addEventListener("abort", () => request.abort());
    request.send(body);
  });
}
