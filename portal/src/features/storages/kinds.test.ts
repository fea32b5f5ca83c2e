import { i18n } from "@lingui/core";
import { expect, test } from "vitest";
import { ApiError } from "@/api/client";
import { commandOf, dataOf, faultsOf, fieldsOf, KIND_NAMES, label } from "./kinds";

test("each kind has its required fields first, and its credentials last and hidden", () => {
  expect(KIND_NAMES).toEqual(["local", "nfs", "smb", "claim", "s3", "azureBlob", "webhdfs"]);
  expect(fieldsOf("smb").map((field) => `${field.key}:${field.type}`)).toEqual(
    ["server:text", "share:text", "path:text", "username:text", "domain:text", "port:number", "mountedAt:text", "claim:text", "password:secret"]);
  expect(fieldsOf("webhdfs").find((field) => field.key === "useHttps")?.type).toBe("switch");
});

test("each field has a name for people", () => {
  i18n.loadAndActivate({ locale: "en", messages: {} });
  const unnamed = KIND_NAMES.flatMap(fieldsOf).filter((field) => label(field.key) === field.key).map((field) => field.key);
  expect(unnamed).toEqual([]);
});

test("values are sent in the types of the schema, and what is empty is left out", () => {
  expect(dataOf("webhdfs", { server: "h", port: "9870", useHttps: "true", user: "", path: "/" })).toEqual({ server: "h", port: 9870, path: "/", useHttps: true });
  // The server says what is wrong with it.
  expect(dataOf("smb", { port: "many" })).toEqual({ port: "many" });
});

test("each fault stands at its field", () => {
  const fault = (path: string, message: string) => ({ path, message, line: null, allowed: "", suggestion: "" });
  const error = new ApiError(400, { code: "InvalidParametersError", message: "m", faults: [fault("name", "bad"), fault("data.path", "one"), fault("data.path", "two"), fault("data", "both")] });
  expect(faultsOf(error)).toEqual({ name: "bad", path: "one; two", "": "both" });
  expect(faultsOf(new ApiError(409, { code: "ConflictStorageError", message: "there is one" }))).toEqual({ name: "there is one" });
  expect(faultsOf(new ApiError(503, { message: "later", advice: "wait" }))).toEqual({ "": "later. wait" });
});

test("the command has no credentials", () => {
  const draft = { name: "d", kind: "s3", values: { bucket: "b", secretAccessKey: "hush" }, description: "", readOnly: true, share: false, groups: ["g"] };
  expect(commandOf(draft, true).join(" ")).toBe("storage add d s3 bucket=b --secret secretAccessKey --read-only --personal --group g");
  expect(commandOf({ ...draft, readOnly: false, share: true }, false).join(" ")).toContain("--read-write --shared --group g --replace");
});
