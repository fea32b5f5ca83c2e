// Hours as people read them.
import { i18n } from "@lingui/core";

export function hours(value: number): string {
  const digits = Math.abs(value) >= 100 || value === 0 ? 0 : Math.abs(value) >= 1 ? 1 : 2;
  return value.toLocaleString(i18n.locale, { maximumFractionDigits: digits });
}
