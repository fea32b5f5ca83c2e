// Line icons of 24 units, drawn for this portal.
const PATHS = {
  home: "M4 11l8-7 8 7v9h-5v-6h-6v6H4z",
  jobs: "M4 6h16M4 12h16M4 18h10",
  submit: "M12 5v14M5 12h14",
  cluster: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  search: "M11 4a7 7 0 100 14 7 7 0 000-14zM16 16l4 4",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v3M12 19v3M2 12h3M19 12h3M5 5l2 2M17 17l2 2M5 19l2-2M17 7l2-2",
  moon: "M20 14A8 8 0 1110 4a6.5 6.5 0 0010 10z",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  check: "M5 13l4 4L19 7",
  terminal: "M5 7l5 5-5 5M12 18h7",
  stop: "M6 6h12v12H6z",
  restart: "M20 12a8 8 0 11-2.5-5.8M20 3v5h-5",
  clone: "M8 8h12v12H8zM4 16V4h12",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  user: "M12 4a4 4 0 100 8 4 4 0 000-8zM4 21c0-5 4-7 8-7s8 2 8 7",
  logout: "M10 4H5v16h5M14 8l4 4-4 4M18 12H9",
  warn: "M12 4l9 16H3zM12 10v4M12 17v.5",
  chart: "M4 4v16h16M8 15l4-5 3 3 5-7",
  clock: "M12 3a9 9 0 100 18 9 9 0 000-18zM12 7v5l3 2",
  play: "M8 5l11 7-11 7z",
  fail: "M12 3a9 9 0 100 18 9 9 0 000-18zM9 9l6 6M15 9l-6 6",
  done: "M12 3a9 9 0 100 18 9 9 0 000-18zM8 12l3 3 5-6",
  dots: "M5 12h.01M12 12h.01M19 12h.01",
  down: "M6 9l6 6 6-6",
  up: "M6 15l6-6 6 6",
  right: "M9 6l6 6-6 6",
  language: "M4 6h9M8.500 3v3M6 10c1 3 4 5 6 6M11 6c0 4-3 8-7 10M13 21l4-10 4 10M14.500 18h5",
  lock: "M6 11h12v9H6zM8 11V8a4 4 0 018 0v3",
  storage: "M4 6c0-2 16-2 16 0v12c0 2-16 2-16 0zM4 6c0 2 16 2 16 0M4 12c0 2 16 2 16 0",
  users: "M9 5a3.500 3.500 0 100 7 3.500 3.500 0 000-7zM2 20c0-4 3-6 7-6s7 2 7 6M16 5.500a3.500 3.500 0 010 6.500M18 14.500c3 .5 4 2.500 4 5.500",
  market: "M4 9l1.500-5h13L20 9M4 9v11h16V9M4 9h16M9 20v-6h6v6",
  star: "M12 3.500l2.600 5.400 5.900.8-4.300 4.100 1 5.900-5.200-2.800-5.200 2.800 1-5.900L3.500 9.700l5.900-.8z",
  settings: "M4 7h9M17 7h3M15 5v4M4 17h3M11 17h9M9 15v4",
  announcement: "M4 10v4h4l8 5V5l-8 5zM19 9v6",
  frame: "M4 5h16v14H4zM4 9h16M7 7h.01",
  filter: "M4 5h16l-6 8v6l-4-2v-4z",
} as const;

export type IconName = keyof typeof PATHS;

/** Draws an icon; it says nothing to a screen reader, so text stands beside it. */
export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth={1.8}
      strokeLinecap="round" strokeLinejoin="round" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
