import { expect, test } from "vitest";
import { parseDocument } from "yaml";
import { commandsOfLines, FRAMEWORKS, launchIn, linesOf, roleOf, writeCommands, writeLaunch } from "./launching";
import { applicationIn, pluginIn, secretsIn, storagesIn, writeJupyter, writePlugin, writeSecret, writeStorage } from "./tools";

const FILE = `# kept
name: train
taskRoles:
  worker:
    instances: 1
    resourcePerInstance:
      cpu: 1
      memoryMB: 512
      gpu: 8
    commands:
      - nvidia-smi
      - python train.py --epochs 3
`;

test("a program is launched by each framework, and its launch is read again", () => {
  for (const framework of FRAMEWORKS) {
    const document = parseDocument(FILE);
    writeLaunch(document, roleOf(document), { framework, program: "train.py --epochs 3" }, 4);
    const again = parseDocument(document.toString({ lineWidth: 0 }));
    expect(again.errors).toEqual([]);
    expect(launchIn(again, "worker")).toEqual({ framework, program: "train.py --epochs 3" });
    expect(again.getIn(["taskRoles", "worker", "instances"])).toBe(4);
    expect(again.getIn(["taskRoles", "worker", "resourcePerInstance", "ports", "rendezvous"])).toBe(1);
    expect(again.getIn(["taskRoles", "worker", "commands", 0])).toBe("nvidia-smi");
    expect(again.toString()).toContain("# kept");
    writeLaunch(again, "worker", { program: "train.py" }, 1);
    expect((again.toJS() as { taskRoles: { worker: { commands: string[] } } }).taskRoles.worker.commands).toEqual(["nvidia-smi", "python3 train.py"]);
    expect(again.hasIn(["taskRoles", "worker", "resourcePerInstance", "ports"])).toBe(false);
  }
});

test("torchrun gets a process for each GPU and meets at the first task", () => {
  const document = parseDocument(FILE);
  writeLaunch(document, "worker", { framework: "torchrun", program: "train.py" }, 2);
  expect(document.getIn(["taskRoles", "worker", "commands", 1])).toBe(
    "torchrun --nnodes=$PAI_TASK_ROLE_TASK_COUNT_worker --nproc-per-node=8 --node-rank=$PAI_TASK_INDEX --master-addr=$PAI_HOST_IP_worker_0 --master-port=$PAI_PORT_LIST_worker_0_rendezvous train.py",
  );
});

test("plugins, storages and secrets come into the file and leave nothing behind", () => {
  const document = parseDocument(FILE);
  writePlugin(document, "git", { repo_uri: "https://git.example.com/code.git", ref: "" });
  writePlugin(document, "tensorboard", { port: 6006 });
  writePlugin(document, "git", { ref: "v1" });
  expect(pluginIn(document, "git")).toEqual({ index: 0, parameters: { repo_uri: "https://git.example.com/code.git", ref: "v1" } });
  writeStorage(document, "data", true);
  writeStorage(document, "team", true);
  expect(storagesIn(document)).toEqual(["data", "team"]);
  writeSecret(document, "token", "abc");
  expect(secretsIn(document)).toEqual(["token"]);
  writePlugin(document, "git", undefined);
  writePlugin(document, "tensorboard", undefined);
  for (const name of ["data", "team"]) writeStorage(document, name, false);
  writeSecret(document, "token");
  expect(document.toString({ lineWidth: 0 })).toBe(FILE);
});

test("JupyterLab is an application, a port and a command, and leaves other commands alone", () => {
  const document = parseDocument(FILE);
  writeJupyter(document, "worker", true);
  expect(applicationIn(document, "lab")).toBe(true);
  expect(document.getIn(["taskRoles", "worker", "resourcePerInstance", "ports", "lab"])).toBe(1);
  writeJupyter(document, "worker", false);
  expect(document.toString({ lineWidth: 0 })).toBe(FILE);
  writePlugin(document, "cmd", { preCommands: ["make"] });
  const before = document.toString({ lineWidth: 0 });
  writeJupyter(document, "worker", true);
  expect((pluginIn(document, "cmd")?.parameters["preCommands"] as string[]).length).toBe(2);
  writeJupyter(document, "worker", false);
  expect(document.toString({ lineWidth: 0 })).toBe(before);
});

test("task roles that share their commands go on sharing them", () => {
  const document = parseDocument("taskRoles:\n  ps:\n    commands: &all\n      - a\n  worker:\n    commands: *all\n");
  writeCommands(document, "ps", ["b"]);
  expect(document.toJS()).toEqual({ taskRoles: { ps: { commands: ["b"] }, worker: { commands: ["b"] } } });
});

test("lines of the form are commands, those that are indented belong to the one before", () => {
  const commands = ["make", "for x in 1 2; do\n  echo $x\ndone"];
  expect(commandsOfLines(linesOf(commands))).toEqual(commands);
  expect(commandsOfLines("echo ")).toEqual(["echo "]);
  expect(commandsOfLines("echo\n")).toEqual(["echo", ""]);
});
