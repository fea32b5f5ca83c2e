// The use of a virtual cluster as one bar: what its jobs use of its promise, what they borrow, what it lends, what is free.
import { i18n } from "@lingui/core";
import type { VirtualCluster } from "@/api/cluster";
import css from "./Gauge.module.css";

type Unit = "gpu" | "cpu";

interface Shares {
  /** With what is bad or drained now. */
  promised: number;
  /** What its jobs use of its promise, also on hardware that is drained. */
  own: number;
  borrowed: number;
  lent: number;
  /** What of the promise takes no jobs now. */
  bad: number;
}

/** Returns what a gauge shows of a virtual cluster: its GPUs, or its CPUs where it has no GPU. */
export function sharesOf(vc: VirtualCluster): Shares & { unit: Unit } {
  const unit: Unit = vc.resourcesTotal.gpu + vc.resourcesUsed.gpu + vc.resourcesBorrowed.gpu > 0 ? "gpu" : "cpu";
  const promised = vc.resourcesTotal[unit];
  const bad = Math.max(promised - vc.resourcesGuaranteed[unit], 0);
  return { unit, promised, own: vc.resourcesUsed[unit], borrowed: vc.resourcesBorrowed[unit], lent: vc.resourcesLent[unit], bad };
}

export function unitName(unit: Unit): string {
  return unit === "gpu" ? i18n.t("GPUs") : i18n.t("CPUs");
}

const rounded = (value: number) => (Number.isInteger(value) ? String(value) : value.toFixed(1));

export function Gauge({ vc }: { vc: VirtualCluster }) {
  const { unit, promised, own, borrowed, lent, bad } = sharesOf(vc);
  // Jobs run on where it is drained: the bar shows only the rest.
  const out = Math.min(bad, Math.max(promised - own - lent, 0));
  const whole = Math.max(promised, own + lent) + borrowed || 1;
  const widths = { own, borrowed, lent, bad: out };
  const parts: [keyof typeof widths, number, string][] = [
    ["own", own, i18n.t("in use")],
    ["borrowed", borrowed, i18n.t("borrowed")],
    ["lent", lent, i18n.t("lent to others")],
    ["bad", bad, i18n.t("bad or drained")],
  ];
  const shown = parts.filter(([, value]) => value > 0);
  const text = i18n.t("{used} of {promised} promised {unit} in use", {
    used: rounded(own), promised: rounded(promised), unit: unitName(unit),
  });
  return (
    <div>
      <div className={css.bar} role="img" aria-label={[text, ...shown.filter(([kind]) => kind !== "own").map(([, value, name]) => `${rounded(value)} ${name}`)].join(", ")}>
        {shown.filter(([kind]) => widths[kind] > 0).map(([kind]) => (
          <span key={kind} className={css.part} data-kind={kind} style={{ width: `${(100 * widths[kind]) / whole}%` }} />
        ))}
      </div>
      <p className={css.text}>
        <span>{text}</span>
        {shown.filter(([kind]) => kind !== "own").map(([kind, value, name]) => (
          <span key={kind} className={css.key}><i data-kind={kind} />{rounded(value)} {name}</span>
        ))}
      </p>
    </div>
  );
}
