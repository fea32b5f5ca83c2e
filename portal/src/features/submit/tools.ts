// Data and tools of a job as its file names them: storages, a repository, SSH, TensorBoard, secrets.
import { isMap, isScalar, isSeq, type Document } from "yaml";

const PLUGINS = ["extras", "com.microsoft.pai.runtimeplugin"];
const STORAGES = ["extras", "storages"];

interface Entry {
  index: number;
  parameters: Record<string, unknown>;
}

function plain(document: Document, path: readonly (string | number)[]): unknown {
  const node = document.getIn(path);
  return node !== null && typeof node === "object" && "toJSON" in node ? (node as { toJSON: () => unknown }).toJSON() : node;
}

/** Returns where a plugin stands in the file, and its parameters. */
export function pluginIn(document: Document, name: string): Entry | undefined {
  const list = plain(document, PLUGINS);
  if (!Array.isArray(list)) return undefined;
  const index = list.findIndex((one) => (one as { plugin?: unknown } | null)?.plugin === name);
  return index < 0 ? undefined : { index, parameters: ((list[index] as { parameters?: Record<string, unknown> }).parameters ?? {}) };
}

/** Removes an empty list or mapping, and what is empty above it. */
function tidy(document: Document, path: readonly string[]): void {
  const node = document.getIn(path);
  if ((isSeq(node) || isMap(node)) && !node.items.length) {
    document.deleteIn(path);
    if (path.length > 1) tidy(document, path.slice(0, -1));
  }
}

/** Writes a plugin with these parameters; none removes it. An empty value removes a parameter. */
export function writePlugin(document: Document, name: string, parameters: Record<string, unknown> | undefined): void {
  const there = pluginIn(document, name);
  if (!parameters) {
    if (there) document.deleteIn([...PLUGINS, there.index]);
    tidy(document, PLUGINS);
    return;
  }
  const kept = Object.fromEntries(Object.entries({ ...there?.parameters, ...parameters }).filter(([, value]) => value !== ""));
  if (there) document.setIn([...PLUGINS, there.index, "parameters"], document.createNode(kept));
  else if (document.hasIn(PLUGINS)) document.addIn(PLUGINS, document.createNode({ plugin: name, parameters: kept }));
  else document.setIn(PLUGINS, document.createNode([{ plugin: name, parameters: kept }]));
}

/** Returns the names of the storages that the job mounts; undefined where it mounts the default ones. */
export function storagesIn(document: Document): string[] | undefined {
  const list = plain(document, STORAGES);
  return Array.isArray(list) ? list.map((one) => String((one as { name?: unknown } | null)?.name ?? "")) : undefined;
}

export function writeStorage(document: Document, name: string, is: boolean): void {
  const there = storagesIn(document) ?? [];
  const index = there.indexOf(name);
  if (is && index < 0) {
    if (document.hasIn(STORAGES)) document.addIn(STORAGES, document.createNode({ name }));
    else document.setIn(STORAGES, document.createNode([{ name }]));
  } else if (!is && index >= 0) {
    document.deleteIn([...STORAGES, index]);
    tidy(document, STORAGES);
  }
}

/** Returns the names of the secrets in the file; their values are not read. */
export function secretsIn(document: Document): string[] {
  const found = document.get("secrets");
  return isMap(found) ? found.items.map((item) => (isScalar(item.key) ? String(item.key.value) : "")).filter(Boolean) : [];
}

/** Writes a secret; without a value it is removed. */
export function writeSecret(document: Document, name: string, value?: string): void {
  if (value !== undefined) document.setIn(["secrets", name], value);
  else {
    document.deleteIn(["secrets", name]);
    tidy(document, ["secrets"]);
  }
}

const APPLICATIONS = ["extras", "applications"];
const JUPYTER = "jupyter lab";

/** Returns the place of an application in the file, -1 without it. */
function placeOf(document: Document, path: readonly string[], is: (entry: unknown) => boolean): number {
  const list = plain(document, path);
  return Array.isArray(list) ? list.findIndex(is) : -1;
}

export function applicationIn(document: Document, name: string): boolean {
  return placeOf(document, APPLICATIONS, (one) => (one as { name?: unknown } | null)?.name === name) >= 0;
}

/** Starts JupyterLab beside the program of a role's first task, or removes it: application, port, and what starts it. */
export function writeJupyter(document: Document, role: string, is: boolean): void {
  const port = ["taskRoles", role, "resourcePerInstance", "ports"];
  const commands = (pluginIn(document, "cmd")?.parameters["preCommands"] ?? []) as string[];
  const others = commands.filter((command) => !command.includes(JUPYTER));
  const at = placeOf(document, APPLICATIONS, (one) => (one as { name?: unknown } | null)?.name === "lab");
  if (at >= 0) document.deleteIn([...APPLICATIONS, at]);
  if (document.hasIn([...port, "lab"])) document.deleteIn([...port, "lab"]);
  if (is) {
    const application = { name: "lab", title: "JupyterLab", taskRole: role, port: "lab", healthPath: "/api/status", kind: "jupyter" };
    if (document.hasIn(APPLICATIONS)) document.addIn(APPLICATIONS, document.createNode(application));
    else document.setIn(APPLICATIONS, document.createNode([application]));
    document.setIn([...port, "lab"], 1);
    // Only programs of the platform know the token, and no argument shows it.
    others.push(
      `if [ "$PAI_TASK_INDEX" = 0 ]; then JUPYTER_TOKEN="$PAI_APPLICATION_TOKEN" nohup ${JUPYTER} --no-browser --allow-root --ip=127.0.0.1 --port="$PAI_PORT_LIST_${role}_0_lab" --ServerApp.port_retries=0 --ServerApp.allow_remote_access=True > jupyter.log 2>&1 & fi`,
    );
  }
  if (others.length) writePlugin(document, "cmd", { preCommands: others });
  else if (commands.length && Object.keys(pluginIn(document, "cmd")?.parameters ?? {}).length < 2) writePlugin(document, "cmd", undefined);
  else if (commands.length) writePlugin(document, "cmd", { preCommands: "" });
  tidy(document, APPLICATIONS);
  tidy(document, port);
}
