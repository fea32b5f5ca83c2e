// A YAML editor with marks at lines. It is in a shadow tree: there its styles need no style element, which the Content
// Security Policy refuses.
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { Compartment, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { i18n } from "@lingui/core";
import { useEffect, useRef, useState } from "react";

export interface Mark {
  line: number;
  text: string;
  isWarning?: boolean;
}

const colours = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: "var(--pai-accent)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--pai-green)" },
  { tag: [tags.number, tags.bool, tags.atom], color: "var(--pai-amber)" },
  { tag: tags.comment, color: "var(--pai-muted)" },
]);

const look = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", color: "var(--pai-text)", backgroundColor: "var(--pai-code)" },
  "&.cm-focused": { outline: "2px solid var(--pai-accent)" },
  ".cm-scroller": { fontFamily: "var(--mantine-font-family-monospace)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--pai-text)" },
  ".cm-gutters": { backgroundColor: "var(--pai-code)", color: "var(--pai-muted)", border: "0" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--pai-hover)" },
  ".cm-cursor": { borderLeftColor: "var(--pai-text)" },
  ".cm-tooltip": { backgroundColor: "var(--pai-card)", color: "var(--pai-text)", border: "1px solid var(--pai-line)", borderRadius: "8px" },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mantine-font-family-monospace)" },
  ".cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--pai-accent-soft) !important", color: "var(--pai-text) !important" },
  ".cm-completionDetail": { color: "var(--pai-muted)", fontStyle: "normal" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700" },
  ".cm-completionInfo": { maxWidth: "320px", padding: "8px 10px", whiteSpace: "pre-line" },
  ".cm-selectionBackground, &.cm-focused .cm-selectionBackground": { backgroundColor: "var(--pai-accent-soft) !important" },
});

interface EditorProps {
  value: string;
  onChange: (value: string) => void;
  marks: readonly Mark[];
  label: string;
  /** What an editor of one kind of file has beside this, such as completion. */
  extension?: Extension;
}

export default function Editor({ value, onChange, marks, label, extension }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const typed = useRef(new Set<string>());
  const view = useRef<EditorView | null>(null);
  const [more] = useState(() => new Compartment());
  const heard = useRef(onChange);
  heard.current = onChange;
  useEffect(() => {
    if (!host.current) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const made = new EditorView({
      doc: value,
      root,
      parent: root,
      extensions: [
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        highlightActiveLine(),
        // Escape, then Tab, leaves the editor.
        keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
        yaml(),
        more.of(extension ?? []),
        lintGutter(),
        look,
        syntaxHighlighting(colours),
        EditorView.contentAttributes.of({ "aria-label": label, "aria-description": i18n.t("Tab indents. Escape, then Tab, leaves the editor."), tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          const text = update.state.doc.toString();
          typed.current.add(text);
          heard.current(text);
        }),
      ],
    });
    made.dom.style.height = "100%";
    view.current = made;
    return () => made.destroy();
  }, []);
  useEffect(() => {
    const made = view.current;
    const here = made?.state.doc.toString();
    // On a busy machine an earlier text comes back while the next letters are typed, which must not be lost.
    if (here === value) typed.current.clear();
    else if (made && !typed.current.has(value))
      made.dispatch({ changes: { from: 0, to: made.state.doc.length, insert: value } });
  }, [value]);
  useEffect(() => {
    const made = view.current;
    if (!made) return;
    const found: Diagnostic[] = marks.map((mark) => {
      const line = made.state.doc.line(Math.min(Math.max(mark.line, 1), made.state.doc.lines));
      return { from: line.from, to: line.to, severity: mark.isWarning ? "warning" : "error", message: mark.text };
    });
    made.dispatch(setDiagnostics(made.state, found));
  }, [marks]);
  useEffect(() => view.current?.dispatch({ effects: more.reconfigure(extension ?? []) }), [extension]);
  return <div ref={host} style={{ height: "100%" }} />;
}
