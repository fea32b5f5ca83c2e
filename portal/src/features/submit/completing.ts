// Completion in a job file: keys and values of the server's schema, the user's own names, and references to values.
// Loaded beside the editor, since most of it is needed at the first letter only.
import { autocompletion, completionKeymap, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { EditorState, Prec, type Extension } from "@codemirror/state";
import { keymap } from "@codemirror/view";
import { i18n } from "@lingui/core";
import { isMap, isScalar, isSeq, parseDocument, type Document } from "yaml";
import { placeAt, type Place } from "./cursor";
import { keysAt, nodesAt, opening, valuesAt } from "./schema";

/** Names that the server knows. */
export interface Names {
  virtualClusters: readonly string[];
  skus: readonly string[];
  storages: readonly string[];
}

export interface Found {
  from: number;
  options: Completion[];
}

const REFERENCE = /<%\s*(\$?[\w.]*)$/;

/** Returns what may stand at a position of a job file; undefined for nothing. */
export function completionsAt(text: string, position: number, names: Names): Found | undefined {
  const before = text.slice(text.lastIndexOf("\n", position - 1) + 1, position);
  const reference = REFERENCE.exec(before);
  if (reference) return referencesAt(text, position, reference[1] ?? "");
  const place = placeAt(text, position);
  if (!place) return undefined;
  const options = place.kind === "key" ? [...keyOptions(place), ...entryOptions(text, place, names)] : valueOptions(text, place, names);
  return options.length ? { from: place.from, options } : undefined;
}

function keyOptions(place: Place): Completion[] {
  return keysAt(place).map(({ key, node, isRequired }) => ({
    label: key,
    type: "property",
    detail: isRequired ? i18n.t("required") : undefined,
    info: described(node),
    boost: isRequired ? 1 : 0,
    apply: key + opening(node, place.indent),
  }));
}

/** An entry of a list that is a single value. */
function entryOptions(text: string, place: Place, names: Names): Completion[] {
  return place.path.at(-1) === 0 ? valueOptions(text, place, names) : rolesHere(text, place);
}

function rolesHere(text: string, { path, others, indent }: Place): Completion[] {
  if (path.at(-1) !== "taskRoles" || path.length === 1) return [];
  return keysOf(parseDocument(text), "taskRoles").filter((role) => !others.has(role)).map((label) => ({ label, type: "class", apply: `${label}:\n${" ".repeat(indent + 2)}` }));
}

function valueOptions(text: string, { path }: Place, names: Names): Completion[] {
  const fixed = valuesAt(path).map(({ value, node }) => ({ label: value, type: "enum", info: described(node) }));
  const info = described(nodesAt(path)[0] ?? {});
  return [...fixed, ...namesFor(text, path, names).map((label) => ({ label, type: "variable", info }))];
}

const PREREQUISITES: Readonly<Record<string, string>> = { dockerImage: "dockerimage", data: "data", output: "output", script: "script", prerequisites: "" };

/** Returns the names of the platform, or of this file, that a value may be. */
function namesFor(text: string, path: Place["path"], names: Names): readonly string[] {
  const named = path.filter((key) => key !== 0);
  const key = named.at(-1) ?? "";
  if (key === "virtualCluster") return names.virtualClusters;
  if (key === "skuType") return names.skus;
  if (named.at(-2) === "storages" && key === "name") return names.storages;
  if (key === "taskRole" || key === "taskroles") return keysOf(parseDocument(text), "taskRoles");
  const kind = path[0] === "taskRoles" ? PREREQUISITES[key] : undefined;
  return kind === undefined ? [] : prerequisitesOf(parseDocument(text), kind);
}

function keysOf(document: Document, key: string): string[] {
  const found = isMap(document.contents) ? document.get(key) : undefined;
  return isMap(found) ? found.items.map((item) => (isScalar(item.key) ? String(item.key.value ?? "") : "")).filter(Boolean) : [];
}

function prerequisitesOf(document: Document, kind: string): string[] {
  const found = isMap(document.contents) ? document.get("prerequisites") : undefined;
  if (!isSeq(found)) return [];
  return found.items.filter(isMap).filter((one) => !kind || one.get("type") === kind).map((one) => String(one.get("name") ?? "")).filter(Boolean);
}

function referencesAt(text: string, position: number, typed: string): Found | undefined {
  const document = parseDocument(text);
  const end = /^\s*%>/.test(text.slice(position)) ? "" : " %>";
  const options = ["parameters", "secrets"].flatMap((scope) => keysOf(document, scope).map((name) => ({
    label: `$${scope}.${name}`,
    type: "constant",
    // The value of a secret is shown nowhere.
    detail: scope === "parameters" ? String(document.getIn([scope, name]) ?? "").slice(0, 40) : undefined,
    info: scope === "parameters" ? i18n.t("A parameter of this file.") : i18n.t("A secret of this file; its value is never shown."),
    apply: `$${scope}.${name}${end}`,
  })));
  return options.length ? { from: position - typed.length, options } : undefined;
}

function described({ description, examples }: { description?: string; examples?: unknown[] }): string | undefined {
  const [example] = examples ?? [];
  return [description, example !== undefined && i18n.t("For example: {example}", { example: typeof example === "string" ? example : JSON.stringify(example) })].filter(Boolean).join("\n") || undefined;
}

/** Returns completion for an editor of job files. The names are asked when they are needed. */
export function jobFileCompletion(names: () => Names): Extension {
  const source = (context: CompletionContext): CompletionResult | null => {
    const found = completionsAt(context.state.doc.toString(), context.pos, names());
    // Without a letter or a value to begin, a new line is left alone: Enter and the arrows go on writing.
    if (!found || (!context.explicit && found.from === context.pos && !/[:-] $|<%\s*$/.test(context.state.sliceDoc(Math.max(context.pos - 4, 0), context.pos)))) return null;
    return { ...found, validFor: /^[\w.$-]*$/ };
  };
  return [
    EditorState.phrases.of({ Completions: i18n.t("Completions") }),
    autocompletion({ override: [source], icons: false, defaultKeymap: false, activateOnCompletion: (one) => one.type === "property" }),
    Prec.highest(keymap.of(completionKeymap)),
  ];
}
