import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { sharing, type Answered } from "./shared";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function world() {
  const asked: string[] = [];
  const answers: ((body: string) => void)[] = [];
  const shared = sharing((path, key) => {
    asked.push(`${key} ${path}`);
    return new Promise<Answered>((done) => answers.push((body) => done({ status: 200, headers: [], body })));
  });
  return { asked, answers, shared };
}

test("tabs that ask the same get one answer", async () => {
  const { asked, answers, shared } = world();
  const both = [shared.get("/a", "k"), shared.get("/a", "k")];
  answers[0]?.("one");
  expect((await Promise.all(both)).map((one) => one.body)).toEqual(["one", "one"]);
  expect((await shared.get("/a", "k")).body).toBe("one");
  expect(asked).toEqual(["k /a"]);
});

test("an answer from before a change, of another login or grown old is not given", async () => {
  const { asked, answers, shared } = world();
  void shared.get("/a", "k");
  shared.forget();
  void shared.get("/a", "k");
  void shared.get("/a", "other");
  for (const answer of answers) answer("done");
  await vi.advanceTimersByTimeAsync(1_001);
  void shared.get("/a", "k");
  expect(asked).toEqual(["k /a", "k /a", "other /a", "k /a"]);
});
