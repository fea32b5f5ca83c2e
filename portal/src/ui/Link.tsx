// A link to another page, by its address.
import { Link as RouterLink, type LinkComponentProps } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, ReactNode } from "react";
import type { Query } from "./address";

interface LinkProps extends Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "href"> {
  to: string;
  query?: Query;
  children?: ReactNode;
}

export function Link({ to, query, ...rest }: LinkProps) {
  const given = { to, search: query ?? {}, preload: "intent", ...rest } as LinkComponentProps;
  return <RouterLink {...given} />;
}
