import { i18n } from "@lingui/core";
import { expect, test } from "vitest";
import { completionsAt } from "./completing";

i18n.loadAndActivate({ locale: "en", messages: {} });
const NAMES = { virtualClusters: ["default", "vision"], skus: ["a100"], storages: ["data"] };
const HEAD = "protocolVersion: 2\nname: a\n";

/** Returns the completions at the mark `^`. */
function at(text: string): string[] {
  const position = text.indexOf("^");
  return (completionsAt(text.replace("^", ""), position, NAMES)?.options ?? []).map((one) => one.label);
}

test("keys of each level are offered, but not those that are there", () => {
  expect(at(`${HEAD}^`)).toContain("taskRoles");
  expect(at(`${HEAD}^`)).not.toContain("name");
  expect(at(`${HEAD}^\ntype: job\n`)).not.toContain("type");
  expect(at("taskRoles:\n  worker:\n    ins^")).toContain("instances");
  expect(at("taskRoles:\n  worker:\n    resourcePerInstance:\n      cpu: 1\n      ^")).toEqual(["memoryMB", "gpu", "ports"]);
  expect(at("taskRoles:\n  worker:\n    commands:\n      - a\n    ^")).toContain("dockerImage");
  expect(at("extras:\n  hivedScheduler:\n    ^")).toContain("jobPriorityClass");
});

test("a list may stand right below its key, and its type decides which keys an entry has", () => {
  for (const dent of ["", "  "]) {
    const keys = at(`prerequisites:\n${dent}- type: dockerimage\n${dent}  ^\nname: a`);
    expect(keys).toContain("uri");
    expect(keys).toContain("auth");
    expect(keys).not.toContain("plugin");
    expect(at(`prerequisites:\n${dent}- ^`)).toContain("type");
    expect(at(`prerequisites:\n${dent}- type: ^`)).toEqual(["dockerimage", "data", "script", "output"]);
  }
});

test("values are those of the schema, of the platform and of the file", () => {
  expect(at("extras:\n  hivedScheduler:\n    jobPriorityClass: ^")).toEqual(["crit", "prod", "test", "oppo"]);
  expect(at("extras:\n  gangAllocation: ^")).toEqual(["true", "false"]);
  expect(at("defaults:\n  virtualCluster: ^")).toEqual(["default", "vision"]);
  expect(at("extras:\n  storages:\n    - name: ^")).toEqual(["data"]);
  expect(at("taskRoles:\n  worker: {}\nextras:\n  hivedScheduler:\n    taskRoles:\n      worker:\n        skuType: ^")).toEqual(["a100"]);
  expect(at("taskRoles:\n  worker: {}\nextras:\n  hivedScheduler:\n    taskRoles:\n      ^")).toEqual(["worker"]);
  const images = "prerequisites:\n- {type: dockerimage, name: torch}\n- {type: data, name: set}\ntaskRoles:\n  worker:\n    ";
  expect(at(`${images}dockerImage: ^`)).toEqual(["torch"]);
  expect(at(`${images}prerequisites:\n      - ^`)).toEqual(["torch", "set"]);
});

test("references name parameters and secrets also inside of texts, and no value of a secret", () => {
  const file = "parameters:\n  lr: 0.1\nsecrets:\n  token: hunter2\ntaskRoles:\n  worker:\n    commands:\n      - |\n        echo <% ^";
  expect(at(file)).toEqual(["$parameters.lr", "$secrets.token"]);
  expect(JSON.stringify(completionsAt(file.replace("^", ""), file.indexOf("^"), NAMES))).not.toContain("hunter2");
  expect(completionsAt("parameters: {lr: 1}\na: <% $par %>", 30, NAMES)?.options[0]?.apply).toBe("$parameters.lr");
});

test("nothing is offered in comments, in texts and in values of another form", () => {
  for (const text of ["# na^", "name: a # ^", "description: |\n  name: ^", "commands:\n  - >-\n    na^", "name: {^", "a: [^", "name: '^"]) expect(at(text)).toEqual([]);
  expect(at(`description: |\n  taskRoles:\n    worker:\n\n^`)).toContain("taskRoles");
});

test("every key is described, and what opens a mapping or a list is indented", () => {
  const text = "taskRoles:\n  worker:\n    ";
  const found = completionsAt(text, text.length, NAMES);
  expect(found?.options.every((one) => one.info)).toBe(true);
  const apply = (key: string) => found?.options.find((one) => one.label === key)?.apply;
  expect(apply("resourcePerInstance")).toBe("resourcePerInstance:\n      ");
  expect(apply("commands")).toBe("commands:\n      - ");
  expect(apply("instances")).toBe("instances: ");
});
