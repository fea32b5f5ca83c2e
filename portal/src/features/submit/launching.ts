// The commands that start one program in several tasks: how each framework learns from the platform's variables who else
// is there. What the form shows of it is read from the file again, so that the two are always in step.
import { isMap, isScalar, isSeq, type Document } from "yaml";

export type Framework = "torchrun" | "accelerate" | "tensorflow" | "variables";
export const FRAMEWORKS: readonly Framework[] = ["torchrun", "accelerate", "tensorflow", "variables"];

export interface Launch {
  /** None: each task runs the program by itself. */
  framework?: Framework;
  program: string;
}

const PORT = "rendezvous";

/** Returns the name of the first task role. */
export function roleOf(document: Document): string {
  const roles = document.get("taskRoles");
  const first = isMap(roles) ? roles.items[0]?.key : undefined;
  return isScalar(first) ? String(first.value) : "";
}

function variables(role: string): { count: string; address: string; port: string } {
  return { count: `$PAI_TASK_ROLE_TASK_COUNT_${role}`, address: `$PAI_HOST_IP_${role}_0`, port: `$PAI_PORT_LIST_${role}_0_${PORT}` };
}

/** Returns the commands that start a program with a framework in all tasks of a role, on so many GPUs each. */
function commandsOf({ framework, program }: Launch, role: string, gpus: number): string[] {
  const { count, address, port } = variables(role);
  const processes = Math.max(gpus, 1);
  switch (framework) {
    case "torchrun":
      return [`torchrun --nnodes=${count} --nproc-per-node=${processes} --node-rank=$PAI_TASK_INDEX --master-addr=${address} --master-port=${port} ${program}`];
    case "accelerate":
      return [`accelerate launch --num_machines=${count} --num_processes=$((${count.slice(1)} * ${processes})) --machine_rank=$PAI_TASK_INDEX --main_process_ip=${address} --main_process_port=${port} ${program}`];
    case "tensorflow":
      return [
        `export TF_CONFIG=$(python3 -c 'import json, os; e = os.environ; n = int(e["PAI_TASK_ROLE_TASK_COUNT_${role}"]); print(json.dumps({"cluster": {"worker": [e[f"PAI_HOST_IP_${role}_{i}"] + ":" + e[f"PAI_PORT_LIST_${role}_{i}_${PORT}"] for i in range(n)]}, "task": {"type": "worker", "index": int(e["PAI_TASK_INDEX"])}}))')`,
        `python3 ${program}`,
      ];
    case "variables":
      return [`export MASTER_ADDR=${address} MASTER_PORT=${port} WORLD_SIZE=${count} RANK=$PAI_TASK_INDEX`, `python3 ${program}`];
    case undefined:
      return [`python3 ${program}`];
  }
}

const LAUNCHES: readonly [Framework, RegExp][] = [
  ["torchrun", /^torchrun --nnodes=.* --master-port=\S+ (.+)$/s],
  ["accelerate", /^accelerate launch .* --main_process_port=\S+ (.+)$/s],
];
const PREPARED: readonly [Framework, RegExp][] = [
  ["tensorflow", /^export TF_CONFIG=/],
  ["variables", /^export MASTER_ADDR=/],
];
const PYTHON = /^python3? (.+)$/s;

/** Returns how the commands start the program, the index of the first command of that, and how many they are. */
function found(commands: readonly string[]): { launch: Launch; at: number; count: number } | undefined {
  for (const [index, command] of commands.entries()) {
    for (const [framework, pattern] of LAUNCHES) {
      const program = pattern.exec(command)?.[1];
      if (program) return { launch: { framework, program }, at: index, count: 1 };
    }
    for (const [framework, pattern] of PREPARED) {
      const program = PYTHON.exec(commands[index + 1] ?? "")?.[1];
      if (pattern.test(command) && program) return { launch: { framework, program }, at: index, count: 2 };
    }
  }
  const at = commands.findLastIndex((command) => PYTHON.test(command));
  const program = PYTHON.exec(commands[at] ?? "")?.[1];
  return program ? { launch: { program }, at, count: 1 } : undefined;
}

/** Returns the commands of a task role as texts. */
export function commandsIn(document: Document, role: string): string[] {
  const commands = document.getIn(["taskRoles", role, "commands"]);
  return isSeq(commands) ? commands.items.map((item) => (isScalar(item) ? String(item.value ?? "") : "")) : [];
}

export function launchIn(document: Document, role: string): Launch | undefined {
  return found(commandsIn(document, role))?.launch;
}

/** Returns commands as lines of a field. A command of several lines stays one: its lines are indented. */
export function linesOf(commands: readonly string[]): string {
  return commands.map((command) => command.trimEnd().replaceAll("\n", "\n  ")).join("\n");
}

/** Returns the commands that lines of a field mean. */
export function commandsOfLines(text: string): string[] {
  const commands: string[] = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("  ") && commands.length) commands[commands.length - 1] += `\n${line.slice(2)}`;
    else commands.push(line);
  }
  return commands;
}

/** Writes commands, in blocks where one has several lines. */
export function writeCommands(document: Document, role: string, commands: readonly string[]): void {
  const path = ["taskRoles", role, "commands"];
  const before = document.getIn(path, true);
  const fresh = document.createNode([...commands]);
  // Other task roles may refer to these commands.
  if (isSeq(before) && before.anchor) fresh.anchor = before.anchor;
  document.setIn(path, fresh);
}

/** Writes how a role starts its program: the commands, the port on which its tasks meet, and the number of tasks. */
export function writeLaunch(document: Document, role: string, launch: Launch, instances: number): void {
  const at = ["taskRoles", role];
  const gpus = Number(document.getIn([...at, "resourcePerInstance", "gpu"]) ?? 0);
  const before = commandsIn(document, role);
  const known = found(before);
  const fresh = commandsOf(launch, role, gpus);
  writeCommands(document, role, known ? [...before.slice(0, known.at), ...fresh, ...before.slice(known.at + known.count)] : [...before, ...fresh]);
  document.setIn([...at, "instances"], instances);
  const port = [...at, "resourcePerInstance", "ports", PORT];
  if (launch.framework) document.setIn(port, 1);
  else if (document.hasIn(port)) {
    document.deleteIn(port);
    const ports = document.getIn(port.slice(0, -1));
    if (isMap(ports) && !ports.items.length) document.deleteIn(port.slice(0, -1));
  }
}
