// Where the focus goes for people who use the keyboard: to a page that opened, and from a dialog back to what opened it.
import { useEffect, useRef, type RefObject } from "react";

const OVERLAYS = "[data-portal], [data-mantine-shared-portal-node]";

/** Moves the focus to the start of a page once its address was opened from another page. */
export function useFocusOnPage(path: string): RefObject<HTMLElement | null> {
  const main = useRef<HTMLElement>(null);
  const opened = useRef(path);
  useEffect(() => {
    if (opened.current === path) return;
    opened.current = path;
    main.current?.focus({ preventScroll: true });
    main.current?.scrollTo(0, 0);
  }, [path]);
  return main;
}

/** Returns the focus to what had it before a dialog, or to the page if that is gone: the library forgets it of dialogs
 *  that are removed while they are open. */
export function useFocusAfterDialogs(main: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    let before: HTMLElement | null = null;
    const remember = (event: FocusEvent) => {
      if (event.target instanceof HTMLElement && !event.target.closest(OVERLAYS)) before = event.target;
    };
    const giveBack = new MutationObserver((changes) => {
      if (document.activeElement !== document.body) return;
      const isGone = changes.some((change) => [...change.removedNodes].some((node) => node instanceof Element && (node.matches("[role=dialog]") || node.querySelector("[role=dialog]"))));
      if (isGone) (before?.isConnected ? before : main.current)?.focus({ preventScroll: true });
    });
    document.addEventListener("focusin", remember);
    giveBack.observe(document.body, { childList: true, subtree: true });
    return () => {
      document.removeEventListener("focusin", remember);
      giveBack.disconnect();
    };
  }, [main]);
}
