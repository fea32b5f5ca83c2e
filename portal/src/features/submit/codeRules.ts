// Which files of a directory stay here: the rules of .gitignore and .paiignore, then what no job needs, then files of
// secrets. The lists are those of `pai job submit --code`, which the build writes beside the types.
import ignore, { type Ignore } from "ignore";
import lists from "@/api/codeRules.json";

export type Stays = "kept" | "ignored" | "secret";

/** The rules of one directory; those of its parents are above them. */
export class Rules {
  private readonly spec: Ignore;

  private constructor(
    /** The path of the directory, with a slash at its end; "" for the first one. */
    private readonly base: string,
    lines: readonly string[],
    private readonly above?: Rules,
    private readonly isOfSecrets = false,
  ) {
    this.spec = ignore({ ignorecase: false, allowRelativePaths: true }).add(lines);
  }

  static first(): Rules {
    return new Rules("", lists.neverNeeded, new Rules("", lists.secrets, undefined, true));
  }

  /** Returns these rules with those of a directory before them. */
  below(base: string, lines: readonly string[]): Rules {
    return lines.length ? new Rules(base, lines, this) : this;
  }

  /** Returns what becomes of a path: the nearest directory decides whose rules match it or a directory that holds it. */
  about(path: string): Stays {
    const found = this.own(path.slice(this.base.length));
    if (found === undefined) return this.above?.about(path) ?? "kept";
    if (!found) return "kept";
    return this.isOfSecrets ? "secret" : "ignored";
  }

  private own(path: string): boolean | undefined {
    const parts = path.replace(/\/$/, "").split("/");
    for (let count = parts.length; count > 0; count -= 1) {
      const part = parts.slice(0, count).join("/");
      const found = this.spec.test(count < parts.length || path.endsWith("/") ? `${part}/` : part);
      if (found.ignored) return true;
      if (found.unignored) return false;
    }
    return undefined;
  }
}
