// A chart of values over time. Those who cannot see it read what each line is now and where it was lowest and highest.
import { i18n } from "@lingui/core";
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { amount } from "./amount";
import css from "./Chart.module.css";
import { exact } from "./time";

export interface Line {
  name: string;
  /** One value for each point; null where nothing was measured. */
  values: readonly (number | null)[];
}

interface ChartProps {
  label: string;
  unit: string;
  startMs: number;
  stepMs: number;
  lines: readonly Line[];
}

const HEIGHT = 180;
const COLOURS = { light: ["#3b5bdb", "#c2410c", "#146c3a", "#9333ea", "#b42318", "#0e7490", "#a16207", "#be185d"], dark: ["#91a7ff", "#fdba74", "#7fdda2", "#d8b4fe", "#ff9d94", "#67e8f9", "#fde047", "#f9a8d4"] } as const;

function colour(scheme: "light" | "dark", line: number): string {
  const all = COLOURS[scheme];
  return all[line % all.length] ?? all[0];
}

/** Returns the last value that was measured. */
export function newest(values: readonly (number | null)[]): number | null {
  return values.findLast((value) => value !== null) ?? null;
}

function range(values: readonly (number | null)[]): [number, number] | null {
  const known = values.filter((value) => value !== null);
  return known.length ? [known.reduce((one, other) => Math.min(one, other)), known.reduce((one, other) => Math.max(one, other))] : null;
}

function spoken(line: Line, unit: string): string {
  const found = range(line.values);
  if (!found) return i18n.t("{name}: nothing measured", { name: line.name });
  return i18n.t("{name}: now {now}, between {low} and {high}", {
    name: line.name, now: amount(newest(line.values), unit), low: amount(found[0], unit), high: amount(found[1], unit),
  });
}

/** Returns the points without a neighbour, which no line shows; null without any. */
export function alone(values: ArrayLike<number | null | undefined>): number[] | null {
  const isThere = (index: number) => values[index] !== null && values[index] !== undefined;
  const found = Array.from(values, (_, index) => index).filter((index) => isThere(index) && !isThere(index - 1) && !isThere(index + 1));
  return found.length ? found : null;
}

function optionsOf(place: HTMLElement, scheme: "light" | "dark", { unit, lines }: ChartProps, onPoint: (point: number | null) => void): uPlot.Options {
  const style = getComputedStyle(place);
  const axis = { stroke: style.getPropertyValue("--pai-muted"), grid: { stroke: style.getPropertyValue("--pai-line"), width: 1 }, ticks: { show: false }, font: `12px ${style.fontFamily}` };
  return {
    width: place.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    padding: [8, 28, 0, 0],
    // The same moment is marked in every chart of the page.
    cursor: { sync: { key: "time" }, points: { size: 6 }, drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => (unit === "percent" && high <= 100 ? [0, 100] : [Math.min(low ?? 0, 0), Math.max(high ?? 0, 0) || 1]) } },
    axes: [{ ...axis, space: 70 }, { ...axis, size: 64, values: (_, splits) => splits.map((value) => amount(value, unit)) }],
    series: [{}, ...lines.map((line, index) => ({ label: line.name, stroke: colour(scheme, index), width: 1.6, points: { show: line.values.length < 3, filter: (plot: uPlot, series: number) => alone(plot.data[series] ?? []) } }))],
    hooks: { setCursor: [(plot: uPlot) => onPoint(plot.cursor.idx ?? null)] },
  };
}

export default function Chart(props: ChartProps) {
  const { label, unit, startMs, stepMs, lines } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [point, setPoint] = useState<number | null>(null);
  const scheme = useComputedColorScheme("light");
  // Another set of lines, or other colours, are another plot; new points are only drawn into it.
  const shape = `${scheme} ${unit} ${lines.map((line) => line.name).join("\n")}`;
  useEffect(() => {
    const at = place.current;
    if (!at) return undefined;
    const made = new uPlot(optionsOf(at, scheme, props, setPoint), [[], ...props.lines.map(() => [])] as unknown as uPlot.AlignedData, at);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: at.clientWidth, height: HEIGHT }));
    resized.observe(at);
    return () => {
      resized.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    const points = Math.max(...lines.map((line) => line.values.length), 0);
    const times = Array.from({ length: points }, (_, index) => (startMs + index * stepMs) / 1000);
    plot.current?.setData([times, ...lines.map((line) => line.values)] as uPlot.AlignedData);
  }, [lines, startMs, stepMs, shape]);
  const shownAt = point !== null && point < Math.max(...lines.map((line) => line.values.length)) ? point : null;
  return (
    <figure className={css.chart} aria-label={label}>
      <div ref={place} className={css.plot} role="img" aria-label={lines.map((line) => spoken(line, unit)).join(". ") || label} />
      <figcaption>
        <ul className={css.keys} tabIndex={lines.length > 8 ? 0 : undefined} aria-label={lines.length > 8 ? label : undefined}>
          {lines.map((line, index) => (
            <li key={line.name}>
              <i style={{ background: colour(scheme, index) }} />{line.name}
              <b>{amount(shownAt === null ? newest(line.values) : line.values[shownAt], unit)}</b>
            </li>
          ))}
          {shownAt !== null && <li className={css.at}>{exact(startMs + shownAt * stepMs)}</li>}
        </ul>
      </figcaption>
    </figure>
  );
}
