// What administrators do with a node: drain it, take it back, and mark its bad GPUs.
import { i18n } from "@lingui/core";
import { Button, Checkbox, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { answer, http } from "@/api/client";
import type { Node } from "@/api/cluster";
import { CopyCommand } from "@/ui/Copy";
import { notifyError } from "@/ui/notices";
import css from "./ClusterPage.module.css";

interface Change {
  drained?: boolean;
  badDevices?: number[];
  reason: string;
  deadlineSeconds?: number;
}

const HOURS = [1, 8, 24, 72];

export function NodeActions({ node }: { node: Node }) {
  const [reason, setReason] = useState("");
  const [hours, setHours] = useState(0);
  const [marked, setMarked] = useState<readonly number[] | null>(null);
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (body: Change) => answer(http.PUT("/api/v2/nodes/{name}", { params: { path: { name: node.name } }, body })),
    onSuccess: () => {
      setReason("");
      setMarked(null);
    },
    onError: notifyError,
    onSettled: () => queries.invalidateQueries({ queryKey: ["nodes"] }),
  });
  const why = reason ? ["--reason", reason] : [];
  const bad = marked ?? node.badDevices;
  const toggle = (device: number) => setMarked(bad.includes(device) ? bad.filter((one) => one !== device) : [...bad, device].sort((one, other) => one - other));
  return (
    <section className={css.detail} aria-label={i18n.t("Change the node")}>
      <h3>{i18n.t("Change the node")}</h3>
      <TextInput size="xs" label={i18n.t("Reason")} description={i18n.t("Users see it")} maxLength={1000} value={reason} onChange={(event) => setReason(event.target.value)} />
      {node.drained ? (
        <div className={css.line}>
          <CopyCommand words={["node", "undrain", node.name]} />
          <Button size="xs" loading={change.isPending} onClick={() => change.mutate({ drained: false, reason })}>{i18n.t("Undrain")}</Button>
        </div>
      ) : (
        <>
          <label className={css.field}>{i18n.t("What runs there may run on")}
            <select className={css.select} value={hours} onChange={(event) => setHours(Number(event.target.value))}>
              <option value={0}>{i18n.t("to its end")}</option>
              {HOURS.map((one) => <option key={one} value={one}>{i18n.t("{count, plural, one {for an hour, then it waits for another node} other {for # hours, then it waits for another node}}", { count: one })}</option>)}
            </select>
          </label>
          <div className={css.line}>
            <CopyCommand words={["node", "drain", node.name, ...(hours ? ["--deadline", `${hours}h`] : []), ...why]} />
            <Button size="xs" loading={change.isPending} onClick={() => change.mutate({ drained: true, reason, ...(hours && { deadlineSeconds: hours * 3600 }) })}>{i18n.t("Drain")}</Button>
          </div>
        </>
      )}
      {node.gpus.total > 0 && (
        <>
          <fieldset className={css.gpus}>
            <legend>{i18n.t("Bad GPUs")}</legend>
            {Array.from({ length: node.gpus.total }, (_, device) => <Checkbox key={device} size="xs" label={String(device)} checked={bad.includes(device)} onChange={() => toggle(device)} />)}
          </fieldset>
          {marked && (
            <div className={css.line}>
              <CopyCommand words={["node", "mark-bad", node.name, marked.join(",") || "none", ...why]} />
              <Button size="xs" loading={change.isPending} onClick={() => change.mutate({ badDevices: [...marked], reason })}>{i18n.t("Save the bad GPUs")}</Button>
            </div>
          )}
        </>
      )}
    </section>
  );
}
