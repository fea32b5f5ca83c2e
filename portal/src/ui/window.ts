// Which rows of a list are in view, and where to draw them; a list of any length scrolls as one.
import { useCallback, useLayoutEffect, useRef, useState } from "react";

// Browsers end the height of what scrolls at 16 to 33 million pixels; a longer list moves by more than a row for each.
const HEIGHT_MAX = 8_000_000;

export function useWindow(total: number, height: number) {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const measure = useCallback(() => {
    const found = box.current;
    if (found) setView({ top: found.scrollTop, height: found.clientHeight });
  }, []);
  useLayoutEffect(() => {
    const found = box.current;
    if (!found) return;
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(found);
    return () => watch.disconnect();
  }, [measure]);
  const whole = total * height;
  const drawn = Math.min(whole, HEIGHT_MAX);
  const room = Math.max(drawn - view.height, 1);
  // Where the list would be scrolled to if it had its whole height.
  const real = whole > drawn ? (Math.min(view.top, room) / room) * (whole - view.height) : view.top;
  const first = Math.max(Math.floor(real / height) - 4, 0);
  const last = Math.min(Math.ceil((real + view.height) / height) + 4, total - 1);
  return { box, onScroll: measure, drawn, first, last, topOf: (index: number) => index * height - real + view.top };
}
