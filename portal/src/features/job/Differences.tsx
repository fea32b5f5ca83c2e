// The file of a job against that of another one.
import Differing from "@/ui/Differing";
import { Loaded } from "@/ui/Loaded";
import { useConfig } from "./queries";

export default function Differences({ job, text, other }: { job: string; text: string; other: string }) {
  return <Loaded query={useConfig(other)} rows={12}>{(found) => <Differing names={{ own: job, other }} own={text} other={found} />}</Loaded>;
}
