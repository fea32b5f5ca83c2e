// Measured values as people read them, by the unit that the server says.
const SIZES = ["B", "KB", "MB", "GB", "TB", "PB"] as const;
const COUNTS = ["", "k", "M", "G", "T"] as const;

function short(value: number): string {
  const size = Math.abs(value);
  return size === 0 || size >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}

function scaled(value: number, by: number, units: readonly string[]): [number, string] {
  let rest = value;
  let power = 0;
  while (Math.abs(rest) >= by && power < units.length - 1) {
    rest /= by;
    power += 1;
  }
  return [rest, units[power] ?? ""];
}

/** Returns a value of a metric with its unit: 1.5 GB, 62 %, 1.2k. */
export function amount(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined) return "–";
  if (unit.startsWith("bytes")) {
    const [rest, name] = scaled(value, 1_000, SIZES);
    return `${short(rest)} ${name}${unit.slice("bytes".length)}`;
  }
  if (unit === "percent") return `${short(value)} %`;
  if (unit === "seconds") return Math.abs(value) < 1 && value !== 0 ? `${short(value * 1_000)} ms` : `${short(value)} s`;
  const [rest, name] = scaled(value, 1_000, COUNTS);
  return `${short(rest)}${name}${unit && ` ${unit}`}`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Returns a size in binary units. */
export function size(bytes: number): string {
  const power = bytes < 1 ? 0 : Math.min(Math.floor(Math.log2(bytes) / 10), UNITS.length - 1);
  const value = bytes / 1024 ** power;
  return `${power && value < 100 ? value.toFixed(1) : Math.round(value)} ${UNITS[power]}`;
}
