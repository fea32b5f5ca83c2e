import { expect, test } from "vitest";
import { parseDocument } from "yaml";
import { withoutSecrets } from "./keptDrafts";
import { lineOf } from "./fields";

const VALUE = "hunter2";

test("no value of a secret is kept, wherever the file has it", () => {
  for (const text of [
    `secrets:\n  token: ${VALUE}\n`,
    `{"secrets": {"token": "${VALUE}"}}`,
    `"secrets":\n  token: &t ${VALUE}\na: *t\n`,
    `a: &t ${VALUE}\nsecrets:\n  token: *t\n`,
    `secrets:\n  # was ${VALUE}\n  token: {deep: [${VALUE}]}\n`,
    `a: &x\n  secrets: {token: ${VALUE}}\n<<: *x\n`,
    `secrets:\n  token: ${VALUE}\ncommands: [echo ${VALUE}]\n`,
    `prerequisites:\n  - auth: {username: a, password: ${VALUE}}\n`,
    `secrets:\n  token: ${VALUE}\nname: [`,
    `secrets:\n  token: ${VALUE}\n---\na: 1\n`,
    `a: 1\n---\nsecrets: {token: ${VALUE}}\n`,
  ])
    expect(withoutSecrets(text) ?? "", text).not.toContain(VALUE);
});

test("a file without secrets is kept as it is, and one with them keeps their names", () => {
  for (const text of ["# a\nname:   a\n", "name: [", "auth: {password: '<% $secrets.p %>'}\n"]) expect(withoutSecrets(text)).toBe(text);
  expect(parseDocument(withoutSecrets(`name: a # why\nsecrets:\n  token: ${VALUE}\n`) ?? "").toJS()).toEqual({ name: "a", secrets: { token: "******" } });
});

test("a fault without a line is marked at its nearest parent that the file has", () => {
  const text = "name: a\ntaskRoles:\n  worker:\n    commands:\n      - a\n      - b\nextras:\n  com.microsoft.pai.runtimeplugin:\n    - plugin: ssh\n";
  const line = (path: string) => lineOf(parseDocument(text), text, path);
  expect(line("taskRoles.worker.commands[1]")).toBe(6);
  expect(line("taskRoles.worker.commands[7]")).toBe(4);
  expect(line("taskRoles.worker.dockerImage.x")).toBe(3);
  expect(line("extras.com.microsoft.pai.runtimeplugin[0].parameters.jobssh")).toBe(9);
  expect(line("prerequisites[0].uri")).toBe(1);
  expect(line("")).toBe(1);
});
