// The cluster: virtual clusters with what was promised and what is used, and every node with its devices.
import { i18n } from "@lingui/core";
import { Drawer, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { answer, http, type Schemas } from "@/api/client";
import { useNodes, useVirtualClusters, type Node, type VirtualCluster } from "@/api/cluster";
import { whileLive } from "@/api/live";
import { later } from "@/api/parts";
import { LIVE_MS } from "@/api/queries";
import { useMe } from "@/api/session";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { Gauge } from "@/ui/Gauge";
import { Link } from "@/ui/Link";
import { LinkButton } from "@/ui/LinkButton";
import { Loaded, Note } from "@/ui/Loaded";
import { Card, Fact, Facts, Page } from "@/ui/Page";
import { Part } from "@/ui/Part";
import { Ago } from "@/ui/time";
import css from "./ClusterPage.module.css";
import { heatName } from "./heat";
import { NodeActions } from "./NodeActions";


const Topology = later(() => import("./Topology"));

export default function ClusterPage() {
  return (
    <Page title={i18n.t("Cluster")} lead={<Summary />} actions={<><LinkButton to="/reports" icon="chart" variant="default">{i18n.t("Reports")}</LinkButton><LinkButton to="/what-if" icon="chart" variant="default">{i18n.t("What if")}</LinkButton><CopyCommand words={["vc", "list"]} /></>}>
      <Loaded query={useVirtualClusters()}>
        {(all) => <div className={css.vcs}>{Object.entries(all).sort(([one], [other]) => one.localeCompare(other)).map(([name, vc]) => <Vc key={name} name={name} vc={vc} />)}</div>}
      </Loaded>
      <Nodes />
    </Page>
  );
}

function Summary() {
  const nodes = useNodes().data ?? [];
  const sum = (pick: (node: Node) => number) => nodes.reduce((total, node) => total + pick(node), 0);
  const gpus = sum((node) => node.gpus.total);
  const unit = gpus ? "gpus" : "cpus";
  const values = { used: sum((node) => node[unit].used), total: sum((node) => node[unit].total), nodes: nodes.length };
  if (!nodes.length) return null;
  return <>{gpus ? i18n.t("{used} of {total} GPUs on {nodes} nodes are in use.", values) : i18n.t("{used} of {total} CPUs on {nodes} nodes are in use.", values)}</>;
}

function Vc({ name, vc }: { name: string; vc: VirtualCluster }) {
  return (
    <Card title={<Link to="/jobs" query={{ vc: name }}>{name}</Link>} aside={<span className={css.dim}>{i18n.t("{running} running, {waiting} waiting", { running: vc.runningGangs, waiting: vc.waitingGangs })}</span>}>
      <Gauge vc={vc} />
    </Card>
  );
}

function stateOf(node: Node): { word: string; tone: "good" | "bad" | "off" } {
  if (!node.healthy) return { word: i18n.t("not healthy"), tone: "bad" };
  if (node.drained) return { word: i18n.t("drained"), tone: "off" };
  return node.badDevices.length ? { word: i18n.t("bad GPUs"), tone: "bad" } : { word: i18n.t("healthy"), tone: "good" };
}

function Nodes() {
  const [query, change] = useAddress();
  const nodes = useNodes();
  const isMap = query["view"] === "map";
  return (
    <Card title={i18n.t("Nodes")} flush aside={
      <span className={css.views}>
        <SegmentedControl size="xs" aria-label={i18n.t("View")} value={isMap ? "map" : "list"} onChange={(view) => change({ view: view === "map" ? "map" : "" })}
          data={[{ value: "list", label: i18n.t("List") }, { value: "map", label: i18n.t("Map") }]} />
        <CopyCommand words={isMap ? ["vc", "inspect"] : ["node", "list"]} />
      </span>
    }>
      {isMap && <Part><Topology /></Part>}
      {!isMap && <Loaded query={nodes} rows={6}>
        {(nodes) => {
          if (!nodes.length) return <Note icon="cluster" title={i18n.t("No nodes yet")}>{i18n.t("They appear as soon as the platform finds them.")}</Note>;
          return (
            <ul className={css.nodes}>
              {nodes.map((node) => {
                const state = stateOf(node);
                return (
                  <li key={node.name}>
                    <button type="button" className={css.node} onClick={() => change({ node: node.name })}>
                      <span className={css.name}>{node.name}<small>{node.gpuModel || node.address}</small></span>
                      <span className={css.state} data-tone={state.tone}>{state.word}</span>
                      <Devices node={node} />
                      <span className={css.use}>{i18n.t("CPU {used}/{total}", node.cpus)}</span>
                      <span className={css.use}>{i18n.t("{used}/{total} GB", { used: Math.round(node.memoryMB.used / 1024), total: Math.round(node.memoryMB.total / 1024) })}</span>
                    </button>
                  </li>
                );
              })}
            </ul>
          );
        }}
      </Loaded>}
      <Drawer opened={Boolean(query["node"])} onClose={() => change({ node: "" })} position="right" size={440} title={query["node"]} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
        {query["node"] && <OneNode name={query["node"]} />}
      </Drawer>
    </Card>
  );
}

/** Draws a square for each GPU: in use, free, or bad. */
function Devices({ node }: { node: Node }) {
  const { total, used } = node.gpus;
  const text = total ? i18n.t("{used} of {total} GPUs in use, {bad} bad", { used, total, bad: node.badDevices.length }) : i18n.t("no GPU");
  if (!total) return <span className={css.dim}>{text}</span>;
  let left = used;
  return (
    <span className={css.devices} role="img" aria-label={text} title={text}>
      {Array.from({ length: Math.min(total, 64) }, (_, device) => {
        const isBad = node.badDevices.includes(device);
        if (!isBad) left -= 1;
        return <i key={device} data-is={isBad ? "bad" : left >= 0 ? "used" : "free"} />;
      })}
    </span>
  );
}

/** What is known of the GPUs of a node, and what its checks found. */
function Health({ node }: { node: Schemas["NodeDetail"] }) {
  const warm = Object.entries(node.temperatures);
  const failing = node.checks.filter((check) => check.result !== "passed");
  return (
    <>
      {warm.length > 0 && (
        <>
          <h3>{i18n.t("Temperature of its GPUs")}</h3>
          <ul className={css.temperatures}>{warm.map(([number, degrees]) => <li key={number} data-heat={heatName(degrees)}><span>{number}</span>{Math.round(degrees)} °C</li>)}</ul>
        </>
      )}
      {node.checks.length > 0 && (
        <>
          <h3>{i18n.t("Checks")}</h3>
          {!failing.length && <p className={css.dim}>{i18n.t("{count, plural, one {The one check passed.} other {All # checks passed.}}", { count: node.checks.length })}</p>}
          <ul className={css.jobs}>
            {failing.map((check) => <li key={check.name}><span className={check.result === "failed" ? css.bad : undefined}>{check.name}</span><span className={css.dim}>{check.message || check.result}{check.sinceTime && <> · <Ago ms={check.sinceTime} /></>}</span></li>)}
          </ul>
        </>
      )}
    </>
  );
}

function OneNode({ name }: { name: string }) {
  const isAdmin = useMe().data?.admin ?? false;
  const detail = useQuery({
    queryKey: ["nodes", name],
    queryFn: () => answer(http.GET("/api/v2/nodes/{name}", { params: { path: { name } } })),
    refetchInterval: () => whileLive(2 * LIVE_MS),
  });
  return (
    <Loaded query={detail} rows={6}>
      {(node) => (
        <div className={css.detail}>
          {node.message && <p className={css.bad}>{node.message}</p>}
          {node.badBecause && <p className={css.bad}>{i18n.t("Bad GPUs {devices}: {reason}", { devices: node.badDevices.join(", "), reason: node.badBecause })}</p>}
          {node.drained && <p className={css.bad}>{i18n.t("Drained: {reason}", { reason: node.drainedBecause })}</p>}
          <Facts>
            <Fact name={i18n.t("Address")}>{node.address}</Fact>
            <Fact name={i18n.t("GPUs")}>{node.gpus.used}/{node.gpus.total} {node.gpuModel}</Fact>
            <Fact name={i18n.t("CPUs")}>{node.cpus.used}/{node.cpus.total}</Fact>
            <Fact name={i18n.t("Virtual clusters")}>{node.virtualClusters.join(", ") || "–"}</Fact>
          </Facts>
          <Health node={node} />
          <h3>{i18n.t("Jobs on it")}</h3>
          {!node.jobs.length && <p className={css.dim}>{i18n.t("None that you may see.")}</p>}
          <ul className={css.jobs}>
            {node.jobs.map((one) => (
              <li key={one.job}>
                <Link to={`/jobs/${one.job}`}>{one.job}</Link>
                <span className={css.dim}>{one.devices.length ? i18n.t("GPUs {devices}", { devices: one.devices.join(", ") }) : i18n.t("{count, plural, one {# CPU} other {# CPUs}}", { count: one.cpus })} · <Ago ms={one.startedTime} /></span>
              </li>
            ))}
          </ul>
          {node.others.jobs > 0 && <p className={css.dim}>{i18n.t("{count, plural, one {# job} other {# jobs}} of others hold {gpus} GPUs.", { count: node.others.jobs, gpus: node.others.gpus })}</p>}
          {isAdmin && <NodeActions key={name} node={node} />}
          <CopyCommand words={["node", "show", name]} />
        </div>
      )}
    </Loaded>
  );
}
