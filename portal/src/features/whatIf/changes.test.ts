import { expect, test } from "vitest";
import { changesOf, writtenOf } from "./changes";

test("changes are written as the command line wants them, and read again", () => {
  const changes = [{ name: "vision", gpus: 8 }, { name: "speech", gpus: -16 }];
  expect(writtenOf(changes)).toBe("vision=+8,speech=-16");
  expect(changesOf("vision=+8,speech=-16")).toEqual(changes);
});

test("what is no change is left out", () => {
  expect(changesOf("vision=much,=+8,speech=0,,team=1.5")).toEqual([]);
  expect(writtenOf([{ name: "", gpus: 8 }, { name: "vision", gpus: 0 }])).toBe("");
});
