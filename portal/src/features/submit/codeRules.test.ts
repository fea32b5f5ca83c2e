import { expect, test } from "vitest";
import { gather, type Entry } from "./codeFiles";
import { Rules } from "./codeRules";
import { isProgram } from "./codeSending";

test("what no job needs and files of secrets stay, unless a rule includes them", () => {
  const rules = Rules.first();
  expect(rules.about(".git/")).toBe("ignored");
  expect(rules.about("a/node_modules/")).toBe("ignored");
  expect(rules.about("a/.env")).toBe("secret");
  expect(rules.about(".env.example")).toBe("kept");
  expect(rules.about("train.py")).toBe("kept");
  const own = rules.below("a/", ["!.env", "!.aws/", "*.log", "!keep.log"]);
  expect(own.about("a/.env")).toBe("kept");
  expect(own.about("a/.aws/credentials")).toBe("kept");
  expect(own.about(".ssh/")).toBe("secret");
  expect(own.about("a/x.log")).toBe("ignored");
  expect(own.about("a/keep.log")).toBe("kept");
  expect(own.about("a/X.LOG")).toBe("kept");
});

function file(name: string, text = ""): Entry {
  return { name, file: () => Promise.resolve(new File([text], name)) };
}

function directory(name: string, ...entries: Entry[]): Entry {
  return { name, list: () => Promise.resolve(entries) };
}

test("rules of a directory hold below it, and a virtual environment stays", async () => {
  const found = await gather(
    [file(".gitignore", "data/\n*.pt\n"), file("train.py"), file("best.pt"), file("id_rsa"), directory("data", file("a")),
      directory("env", file("pyvenv.cfg"), file("x.py")), directory("src", file(".paiignore", "!best.pt\n"), file("best.pt"), directory("__pycache__", file("a.pyc")))],
    new AbortController().signal,
  );
  expect(found.files.map(({ name }) => name)).toEqual([".gitignore", "src/.paiignore", "src/best.pt", "train.py"]);
  expect(found.secrets).toEqual(["id_rsa"]);
});

test("a script and a program may be executed", () => {
  expect(isProgram(new TextEncoder().encode("#!/bin/sh\n"))).toBe(true);
  expect(isProgram(new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 2]))).toBe(true);
  expect(isProgram(new TextEncoder().encode("# a comment"))).toBe(false);
  expect(isProgram(undefined)).toBe(false);
});
