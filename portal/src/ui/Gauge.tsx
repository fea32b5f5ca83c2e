// The use of a virtual cluster as one bar: what its jobs use of its promise, what they borrow, what it lends, what is free.
import { i18n } from "@lingui/core";
import type { VirtualCluster } from "@/api/cluster";
import css from "./Gauge.module.css";

type Unit = "gpu" | "cpu";

interface Shares {
  promised: number;
  own: number;
  borrowed: number;
  lent: number;
  bad: number;
}

/** Returns what a gauge shows of a virtual cluster: its GPUs, or its CPUs where it has no GPU. */
export function sharesOf(vc: VirtualCluster): Shares & { unit: Unit } {
  const unit: Unit = vc.resourcesGuaranteed.gpu + vc.resourcesUsed.gpu + vc.resourcesTotal.gpu > 0 ? "gpu" : "cpu";
  const promised = vc.resourcesGuaranteed[unit];
  const borrowed = vc.resourcesBorrowed[unit];
  const own = Math.max(vc.resourcesUsed[unit] - borrowed, 0);
  return { unit, promised, own, borrowed, lent: vc.resourcesLent[unit], bad: Math.max(promised - vc.resourcesTotal[unit], 0) };
}

export function unitName(unit: Unit): string {
  return unit === "gpu" ? i18n.t("GPUs") : i18n.t("CPUs");
}

const rounded = (value: number) => (Number.isInteger(value) ? String(value) : value.toFixed(1));

export function Gauge({ vc }: { vc: VirtualCluster }) {
  const { unit, promised, own, borrowed, lent, bad } = sharesOf(vc);
  const whole = Math.max(promised, own + lent + bad) + borrowed || 1;
  const parts: [string, number, string][] = [
    ["own", own, i18n.t("in use")],
    ["borrowed", borrowed, i18n.t("borrowed")],
    ["lent", lent, i18n.t("lent to others")],
    ["bad", bad, i18n.t("bad")],
  ];
  const shown = parts.filter(([, value]) => value > 0);
  const text = i18n.t("{used} of {promised} promised {unit} in use", {
    used: rounded(own), promised: rounded(promised), unit: unitName(unit),
  });
  return (
    <div>
      <div className={css.bar} role="img" aria-label={[text, ...shown.slice(1).map(([, value, name]) => `${rounded(value)} ${name}`)].join(", ")}>
        {shown.map(([kind, value]) => (
          <span key={kind} className={css.part} data-kind={kind} style={{ width: `${(100 * value) / whole}%` }} />
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
