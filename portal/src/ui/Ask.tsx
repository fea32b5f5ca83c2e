// A question before something that cannot be undone, with the same as a command.
import { i18n } from "@lingui/core";
import { Button, Group, Modal } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { CopyCommand } from "./Copy";
import { notifyError } from "./notices";

interface AskProps {
  title: string;
  verb: string;
  command: string[];
  onClose: () => void;
  act: () => Promise<unknown>;
  children?: ReactNode;
}

export function Ask({ title, verb, command, onClose, act, children }: AskProps) {
  const done = useMutation({ mutationFn: act, onSuccess: onClose, onError: notifyError });
  return (
    <Modal opened onClose={onClose} title={title} centered attributes={{ header: { role: "none" } }} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
      {children}
      <Group justify="space-between" mt="lg">
        <CopyCommand words={command} />
        <Button color="red" loading={done.isPending} data-autofocus onClick={() => done.mutate()}>{verb}</Button>
      </Group>
    </Modal>
  );
}
