// What each task gets: SKUs of the virtual cluster, what is free of them now, and the quotas that limit it.
import { i18n } from "@lingui/core";
import { NumberInput } from "@mantine/core";
import { isMap, type Document } from "yaml";
import { useNodes, useOwnQuotas, useSkus, useVirtualClusters, type Node } from "@/api/cluster";
import { Gauge } from "@/ui/Gauge";
import { Problem } from "@/ui/Loaded";
import { faultAt, textAt, type Fields, type Path } from "./fields";
import { launchIn, writeLaunch } from "./launching";
import css from "./SubmitPage.module.css";

const SCHEDULER = ["extras", "hivedScheduler"];

export function Hardware({ fields }: { fields: Fields }) {
  const { at, role, edit } = fields;
  const vc = textAt(fields, ["defaults", "virtualCluster"]) || "default";
  const skus = useSkus(vc);
  const kindAt = [...SCHEDULER, "taskRoles", role, "skuType"];
  const kind = textAt(fields, kindAt);
  const names = Object.keys(skus.data ?? {}).sort();
  const gpus = Number(textAt(fields, [...at, "resourcePerInstance", "gpu"]) || 0);
  const sku = skus.data?.[kind || (names[0] ?? "")];
  // A share of the node's CPUs and memory belongs to each GPU: with it a task takes what it pays for.
  const write = (document: Document, count: number, chosen = sku) => {
    document.setIn([...at, "resourcePerInstance", "gpu"], count);
    // A launcher starts a process for each GPU.
    const launch = launchIn(document, role);
    if (launch?.framework) writeLaunch(document, role, launch, Number(document.getIn([...at, "instances"]) ?? 1));
    if (!chosen?.gpu || !count) return;
    document.setIn([...at, "resourcePerInstance", "cpu"], Math.max(Math.floor(chosen.cpu * count), 1));
    document.setIn([...at, "resourcePerInstance", "memoryMB"], Math.max(Math.floor(chosen.memory * count), 1));
  };
  const choose = (name: string) => edit((document) => {
    if (name) document.setIn(kindAt, name);
    else remove(document, kindAt);
    write(document, gpus, skus.data?.[name || (names[0] ?? "")]);
  });
  return (
    <div className={css.form}>
      {skus.error && <Problem error={skus.error} again={() => void skus.refetch()} />}
      <div className={css.two}>
        <label className={css.label}>
          <span>{i18n.t("SKU")}</span>
          <select className={css.choice} value={kind} onChange={(event) => choose(event.target.value)}>
            <option value="">{i18n.t("any that is free")}</option>
            {[...new Set([...names, ...(kind ? [kind] : [])])].map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
        </label>
        <Amount fields={fields} path={[...at, "resourcePerInstance", "gpu"]} label={i18n.t("GPUs of a task")} min={0} write={(count) => edit((document) => write(document, count))} />
      </div>
      {sku && <p className={css.dim}>{skuText(sku)}</p>}
      <div className={css.three}>
        <Amount fields={fields} path={[...at, "instances"]} label={i18n.t("Tasks")} min={1} otherwise="1" />
        <Amount fields={fields} path={[...at, "resourcePerInstance", "cpu"]} label={i18n.t("CPUs")} min={1} />
        <Amount fields={fields} path={[...at, "resourcePerInstance", "memoryMB"]} label={i18n.t("Memory, MB")} min={1} />
      </div>
      <Room vc={vc} />
    </div>
  );
}

function skuText(sku: { cpu: number; memory: number; gpu: number }): string {
  const cpu = Number(sku.cpu.toFixed(1));
  const gb = Number((sku.memory / 1024).toFixed(1));
  return sku.gpu ? i18n.t("Each GPU comes with {cpu} CPUs and {gb} GiB of memory.", { cpu, gb }) : i18n.t("Each CPU comes with {gb} GiB of memory.", { gb });
}

/** Removes a key, and the mappings above it that are empty then. */
function remove(document: Document, path: string[]): void {
  if (!document.hasIn(path)) return;
  document.deleteIn(path);
  const above = path.slice(0, -1);
  const node = above.length ? document.getIn(above) : undefined;
  if (isMap(node) && !node.items.length) remove(document, above);
}

function Amount({ fields, path, label, min, otherwise, write }: { fields: Fields; path: Path; label: string; min: number; otherwise?: string; write?: (value: number) => void }) {
  const value = textAt(fields, path);
  const set = write ?? ((count: number) => fields.edit((document) => document.setIn(path, count)));
  return (
    <NumberInput label={label} min={min} placeholder={otherwise} value={value === "" ? "" : Number(value)} error={faultAt(fields, path)} allowDecimal={false} hideControls
      onChange={(typed) => typed !== "" && Number(typed) !== Number(value) && set(Number(typed))} />
  );
}

/** What is free now, and how much of the quotas is left. */
function Room({ vc }: { vc: string }) {
  const known = useVirtualClusters().data?.[vc];
  const quotas = (useOwnQuotas().data ?? []).filter((quota) => !quota.virtualCluster || quota.virtualCluster === vc);
  const nodes = wholeNodes(useNodes().data ?? []);
  return (
    <div className={css.room}>
      {known && <><p className={css.dim}>{i18n.t("Virtual cluster {vc}", { vc })}</p><Gauge vc={known} /></>}
      {nodes.length > 0 && <p className={css.dim}>{i18n.t("Free now:")} {nodes.map(([free, count]) => i18n.t("{count, plural, one {# node with {free} GPUs} other {# nodes with {free} GPUs}}", { count, free })).join(", ")}</p>}
      {quotas.map((quota) => (
        <p key={`${quota.virtualCluster}/${quota.user}`} className={css.dim}>
          {quota.gpusRunning !== null && <span>{i18n.t("Your jobs hold {used} of the {limit} GPUs that you may use at once.", { used: quota.used.gpusRunning, limit: quota.gpusRunning })} </span>}
          {quota.gpusPerJob !== null && <span>{i18n.t("{limit, plural, one {A job may ask for # GPU.} other {A job may ask for # GPUs.}}", { limit: quota.gpusPerJob })} </span>}
          {quota.jobsUnfinished !== null && <span>{i18n.t("You have {used} of {limit} unfinished jobs.", { used: quota.used.jobsUnfinished, limit: quota.jobsUnfinished })} </span>}
        </p>
      ))}
    </div>
  );
}

/** Returns how many usable nodes have each number of free GPUs, most first. */
function wholeNodes(nodes: readonly Node[]): [number, number][] {
  const counts = new Map<number, number>();
  for (const node of nodes) {
    const free = node.gpus.total - node.gpus.used - node.badDevices.length;
    if (node.healthy && !node.drained && free > 0) counts.set(free, (counts.get(free) ?? 0) + 1);
  }
  return [...counts].sort(([one], [other]) => other - one).slice(0, 4);
}
