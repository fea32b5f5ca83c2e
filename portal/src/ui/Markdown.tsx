// Markdown that others wrote: HTML in it is text, and a picture is a link, so that nobody learns who reads it.
import type { ComponentProps } from "react";
import Reader from "react-markdown";
import gfm from "remark-gfm";
import css from "./Markdown.module.css";

const plugins = [gfm];
const away = { target: "_blank", rel: "noopener noreferrer nofollow" } as const;

const parts: ComponentProps<typeof Reader>["components"] = {
  a: ({ href, children }) => <a href={href} {...away}>{children}</a>,
  img: ({ src, alt }) => <a href={typeof src === "string" ? src : ""} {...away}>{alt || String(src)}</a>,
  // The page has headings of its own above these.
  h1: ({ children }) => <h3>{children}</h3>,
  h2: ({ children }) => <h3>{children}</h3>,
  h3: ({ children }) => <h4>{children}</h4>,
  h5: ({ children }) => <h4>{children}</h4>,
  h6: ({ children }) => <h4>{children}</h4>,
  pre: ({ children }) => <pre tabIndex={0}>{children}</pre>,
  table: ({ children }) => <div className={css.wide} tabIndex={0}><table>{children}</table></div>,
  // A box of a list of tasks has no label, and nobody can tick it.
  input: ({ checked }) => <span aria-hidden="true">{checked ? "☑ " : "☐ "}</span>,
};

export default function Markdown({ text }: { text: string }) {
  return <div className={css.text}><Reader remarkPlugins={plugins} components={parts}>{text}</Reader></div>;
}
