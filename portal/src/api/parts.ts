// Parts of the program that are loaded when they are needed, over a network that may fail for a moment.
import { lazy, type ComponentType } from "react";

const AGAIN_MS = [250, 1_000, 3_000] as const;

/** Loads a part of the program, and tries again for a few seconds if it does not arrive. */
export async function part<T>(load: () => Promise<T>): Promise<T> {
  for (const pauseMs of AGAIN_MS) {
    try {
      return await load();
    } catch {
      await new Promise((done) => setTimeout(done, pauseMs));
    }
  }
  return load();
}

/** Returns a component whose code is loaded when it is shown for the first time. */
export function later<T extends ComponentType<any>>(load: () => Promise<{ default: T }>) {
  return lazy(() => part(load));
}
