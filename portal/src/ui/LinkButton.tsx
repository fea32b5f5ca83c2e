// A link that looks like a button: it has an address, so it opens in a new tab as any link.
import { Button, type ButtonProps } from "@mantine/core";
import type { ReactNode } from "react";
import type { Query } from "./address";
import { Icon, type IconName } from "./Icon";
import { Link } from "./Link";

interface LinkButtonProps extends ButtonProps {
  to: string;
  query?: Query;
  icon?: IconName;
  onClick?: () => void;
  children: ReactNode;
}

export function LinkButton({ to, query, icon, onClick, children, ...rest }: LinkButtonProps) {
  return (
    <Button size="xs" leftSection={icon && <Icon name={icon} size={15} />} {...rest} onClick={onClick} renderRoot={(props) => <Link to={to} query={query} {...props} />}>
      {children}
    </Button>
  );
}
