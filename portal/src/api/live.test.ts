import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { gathering, type JobChanges } from "./changes";
import { concerns } from "./live";

const of = (next: number, ...jobs: string[]): JobChanges => ({ next, jobs, others: false, complete: true });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("the first change is passed on at once and those that follow together", () => {
  const passed: JobChanges[] = [];
  const add = gathering((changes) => passed.push(changes), 100);
  add(of(1, "ann~a"));
  vi.advanceTimersByTime(0);
  expect(passed).toEqual([of(1, "ann~a")]);
  add(of(2, "ann~b"));
  add({ ...of(3, "ann~b", "ann~c"), others: true });
  vi.advanceTimersByTime(50);
  expect(passed).toHaveLength(1);
  vi.advanceTimersByTime(50);
  expect(passed[1]).toEqual({ next: 3, jobs: ["ann~b", "ann~c"], others: true, complete: true });
});

test("a change of unknown jobs among others stays unknown", () => {
  const passed: JobChanges[] = [];
  const add = gathering((changes) => passed.push(changes), 100);
  add({ ...of(1), complete: false });
  add(of(2, "ann~a"));
  vi.advanceTimersByTime(0);
  expect(passed[0]?.complete).toBe(false);
});

test("a change concerns its own job and every list", () => {
  const changes = of(1, "ann~a");
  expect(concerns(["jobs", "page"], changes)).toBe(true);
  expect(concerns(["job", "ann~a", ""], changes)).toBe(true);
  expect(concerns(["job", "a", ""], changes, "ann")).toBe(true);
  expect(concerns(["job", "a", ""], changes, "bob")).toBe(false);
  expect(concerns(["job", "ann~b", ""], changes)).toBe(false);
  expect(concerns(["job", "ann~b", ""], { ...changes, complete: false })).toBe(true);
  expect(concerns(["audit"], changes)).toBe(false);
});
