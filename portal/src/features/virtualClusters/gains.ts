// Who gains and who loses by a change of guarantees.
import type { Schemas } from "@/api/client";

export interface Gain {
  name: string;
  before: number;
  after: number;
  unit: "gpu" | "cpu";
}

/** Returns the virtual clusters whose guarantee would differ, in GPUs where any has some, those that lose first. */
export function gained(shares: readonly Schemas["Share"][]): Gain[] {
  const unit = shares.some((share) => share.before?.gpu || share.after?.gpu) ? "gpu" : "cpu";
  return shares
    .map((share) => ({ name: share.name, before: share.before?.[unit] ?? 0, after: share.after?.[unit] ?? 0, unit }) as const)
    .filter((gain) => gain.before !== gain.after)
    .sort((one, other) => one.after - one.before - (other.after - other.before));
}
