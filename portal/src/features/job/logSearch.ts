// A search of a whole log by the server, as many requests as it takes to find some lines.
import { useState } from "react";
import { answerText, type Schemas } from "@/api/client";

type Hit = Schemas["LogSearch"]["hits"][number];

interface Search {
  text: string;
  hits: readonly Hit[];
  chosen: number;
  isCut: boolean;
  isBusy: boolean;
}

const NONE: Search = { text: "", hits: [], chosen: 0, isCut: false, isBusy: false };
const HITS_MAX = 1_000;

export function useLogSearch(path: string, stream: string) {
  const [search, setSearch] = useState(NONE);
  const start = async (text: string): Promise<Hit | undefined> => {
    if (!text) {
      setSearch(NONE);
      return undefined;
    }
    setSearch({ ...NONE, text, isBusy: true });
    try {
      const hits: Hit[] = [];
      let next: string | null = "";
      do {
        const query = new URLSearchParams({ text, "ignore-case": "true", limit: String(HITS_MAX - hits.length), ...(next ? { next } : {}) });
        const found = JSON.parse((await answerText(`${path}/${stream}/search?${query}`)).text) as Schemas["LogSearch"];
        hits.push(...found.hits);
        next = found.next;
      } while (next && hits.length < HITS_MAX);
      setSearch({ text, hits, chosen: 0, isCut: Boolean(next), isBusy: false });
      return hits[0];
    } catch (error) {
      setSearch(NONE);
      throw error;
    }
  };
  /** Chooses another hit, in a circle. */
  const choose = (index: number): Hit | undefined => {
    const { hits } = search;
    const chosen = hits.length ? (index + hits.length) % hits.length : 0;
    setSearch({ ...search, chosen });
    return hits[chosen];
  };
  return { ...search, start, choose };
}
