// Hours as people read them.
import { i18n } from "@lingui/core";

const LEAST = 0.01;

export function hours(value: number): string {
  // What was used for a minute is not nothing.
  if (value > 0 && value < LEAST) return `< ${LEAST.toLocaleString(i18n.locale)}`;
  const digits = Math.abs(value) >= 100 || value === 0 ? 0 : Math.abs(value) >= 1 ? 1 : 2;
  return value.toLocaleString(i18n.locale, { maximumFractionDigits: digits });
}
