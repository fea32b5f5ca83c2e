// Virtual clusters: what each is guaranteed, changed while jobs run, with what the server says of the change.
import { i18n } from "@lingui/core";
import { Button, Modal, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answer, http, type Schemas } from "@/api/client";
import { useVirtualClusters, type VirtualCluster } from "@/api/cluster";
import { useMe } from "@/api/session";
import { Ask } from "@/ui/Ask";
import { CopyCommand } from "@/ui/Copy";
import { Gauge } from "@/ui/Gauge";
import { Icon } from "@/ui/Icon";
import { Link } from "@/ui/Link";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { notify, notifyError } from "@/ui/notices";
import { Preview } from "./Preview";
import css from "./VirtualClustersPage.module.css";

type Change = Schemas["PromiseChange"];
interface Edited {
  /** "" for a new one. */
  name: string;
}

export default function VirtualClustersPage() {
  const isAdmin = Boolean(useMe().data?.admin);
  const clusters = useVirtualClusters();
  const [edited, setEdited] = useState<Edited | null>(null);
  const [removed, setRemoved] = useState("");
  const queries = useQueryClient();
  const [done, setDone] = useState<Change | null>(null);
  const finish = (change: Change) => {
    setDone(change);
    notify(change.message);
    void queries.invalidateQueries({ queryKey: ["virtual-clusters"] });
    void queries.invalidateQueries({ queryKey: ["guarantees"] });
  };
  const remove = async () => finish((await answer(http.DELETE("/api/v2/virtual-clusters/{vc}", { params: { path: { vc: removed } } }))) as Change);
  return (
    <Page title={i18n.t("Virtual clusters")} lead={i18n.t("Shares of the cluster: what each team is guaranteed, and may lend and borrow.")} actions={
      <>
        <CopyCommand words={["vc", "config"]} />
        {isAdmin && <Button size="xs" leftSection={<Icon name="submit" size={15} />} onClick={() => setEdited({ name: "" })}>{i18n.t("New virtual cluster")}</Button>}
      </>
    }>
      {isAdmin && <Guarantees />}
      {done && <Consequences change={done} />}
      <Card flush>
        <Loaded query={clusters} rows={6}>
          {(all) => {
            const names = Object.keys(all).sort();
            if (!names.length) return <Note icon="cluster" title={i18n.t("No virtual cluster yet")} />;
            return (
              <Table label={i18n.t("Virtual clusters")} heads={[i18n.t("Name"), i18n.t("Guaranteed"), i18n.t("In use"), i18n.t("Jobs"), i18n.t("Order"), ""]}>
                {names.map((name) => {
                  const vc = all[name];
                  return vc && <Row key={name} name={name} vc={vc} isAdmin={isAdmin} edit={() => setEdited({ name })} remove={() => setRemoved(name)} />;
                })}
              </Table>
            );
          }}
        </Loaded>
      </Card>
      {edited && <Edit name={edited.name} vc={clusters.data?.[edited.name]} onClose={() => setEdited(null)} onDone={finish} />}
      {removed && (
        <Ask title={i18n.t("Remove {name}?", { name: removed })} verb={i18n.t("Remove")} command={["vc", "remove", removed]} onClose={() => setRemoved("")} act={remove}>
          <p>{i18n.t("What it was guaranteed goes to the virtual cluster default. The server refuses while jobs use it.")}</p>
          <Preview name={removed} promise="" />
        </Ask>
      )}
    </Page>
  );
}

/** Returns what a virtual cluster is guaranteed, in words. */
export function guaranteed(vc: Pick<VirtualCluster, "skus" | "resourcesTotal">): string {
  const skus = Object.entries(vc.skus).filter(([, count]) => count > 0).map(([sku, count]) => `${count} ${sku}`);
  const { cpu, gpu } = vc.resourcesTotal;
  return skus.join(", ") || (gpu ? `${gpu} GPU` : `${cpu} CPU`);
}

interface RowProps {
  name: string;
  vc: VirtualCluster;
  isAdmin: boolean;
  edit: () => void;
  remove: () => void;
}

function Row({ name, vc, isAdmin, edit, remove }: RowProps) {
  return (
    <tr>
      <td><Link className={css.name} to="/jobs" query={{ vc: name }}>{name}</Link></td>
      <td>{guaranteed(vc)}</td>
      <td className={css.gauge}><Gauge vc={vc} /></td>
      <td>{i18n.t("{running} running, {waiting} waiting", { running: vc.runningGangs, waiting: vc.waitingGangs })}</td>
      <td>{vc.order}</td>
      <td>
        {isAdmin && (
          <span className={css.buttons}>
            <Button size="compact-xs" variant="default" aria-label={i18n.t("Change {name}", { name })} onClick={edit}>{i18n.t("Change")}</Button>
            {name !== "default" && <Button size="compact-xs" variant="default" aria-label={i18n.t("Remove {name}", { name })} onClick={remove}>{i18n.t("Remove")}</Button>}
          </span>
        )}
      </td>
    </tr>
  );
}

/** The guarantees as they were written, and those that cannot be kept at the moment. */
function Guarantees() {
  const config = useQuery({ queryKey: ["guarantees"], queryFn: () => answer(http.GET("/api/v2/cluster/config")) as Promise<Schemas["ClusterConfig"]> });
  const problems = config.data?.problems ?? [];
  if (!problems.length) return null;
  return (
    <div className={css.problems} role="status">
      <strong>{i18n.t("These guarantees cannot be kept now:")}</strong>
      <ul>{problems.map((problem) => <li key={problem}>{problem}</li>)}</ul>
    </div>
  );
}

function Consequences({ change }: { change: Change }) {
  if (!change.demoted.length) return null;
  return (
    <div className={css.problems} role="status">
      <strong>{i18n.t("{count, plural, one {# job} other {# jobs}} lost the guarantee and run on until another job needs the place:", { count: change.demoted.length })}</strong>
      <ul>{change.demoted.slice(0, 50).map((job) => <li key={job}><Link to={`/jobs/${job}`}>{job}</Link></li>)}</ul>
    </div>
  );
}

interface EditProps extends Edited {
  vc: VirtualCluster | undefined;
  onClose: () => void;
  onDone: (change: Change) => void;
}

function Edit({ name: old, vc, onClose, onDone }: EditProps) {
  const [name, setName] = useState(old);
  const [promise, setPromise] = useState("");
  const [asked] = useDebouncedValue(promise.trim(), 300);
  const save = useMutation({
    mutationFn: () => answer(http.PUT("/api/v2/virtual-clusters/{vc}", { params: { path: { vc: name } }, body: { promise } })) as Promise<Change>,
    onSuccess: (change) => {
      onDone(change);
      onClose();
    },
    onError: notifyError,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Modal opened onClose={onClose} title={old ? i18n.t("Change {name}", { name: old }) : i18n.t("New virtual cluster")} closeOnClickOutside={false} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
      <form className={css.form} onSubmit={submit}>
        {!old && <TextInput label={i18n.t("Name")} required withAsterisk={false} data-autofocus value={name} onChange={(event) => setName(event.target.value)} />}
        <TextInput label={i18n.t("Guaranteed")} description={i18n.t("Such as 3 nodes, 8 GPUs of A100, or 8 GPUs + 2 nodes")} required withAsterisk={false} data-autofocus={old ? true : undefined} value={promise} onChange={(event) => setPromise(event.target.value)} />
        <dl className={css.change}>
          <dt>{i18n.t("Until now")}</dt><dd>{vc ? guaranteed(vc) : "–"}</dd>
          <dt>{i18n.t("In use")}</dt><dd>{vc ? <Gauge vc={vc} /> : "–"}</dd>
        </dl>
        {name && asked && <Preview name={name} promise={asked} />}
        <p className={css.dim}>{i18n.t("It holds at once. No running job is stopped for it; the answer names the jobs that lose their guarantee.")}</p>
        <div className={css.line}><CopyCommand words={["vc", "set", name || "NAME", promise || "3 nodes"]} /><Button type="submit" loading={save.isPending}>{i18n.t("Save")}</Button></div>
      </form>
    </Modal>
  );
}
