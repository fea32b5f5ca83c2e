// Publishes an item: from a job, from what stands on the page Submit, as a copy of another item, or from nothing.
import { i18n } from "@lingui/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { answerText } from "@/api/client";
import { useAddress } from "@/ui/address";
import { CopyCommand } from "@/ui/Copy";
import { handedOver } from "@/ui/handed";
import { Loaded } from "@/ui/Loaded";
import { Card, Page } from "@/ui/Page";
import { ItemForm } from "./ItemForm";
import { useItem } from "./queries";

export default function PublishPage() {
  const [query] = useAddress();
  const navigate = useNavigate();
  const job = query["job"] ?? "";
  const fork = query["fork"] ?? "";
  const file = useQuery({
    queryKey: ["market", "job", job],
    queryFn: async () => (await answerText(`/api/v2/jobs/${encodeURIComponent(job)}/config`)).text,
    enabled: Boolean(job),
    staleTime: Infinity,
  });
  const origin = useItem(fork);
  const done = (name: string) => void navigate({ to: `/market/${name}` } as never);
  const lead = job ? i18n.t("The file of job {name}, its secrets masked", { name: job }) : fork ? i18n.t("A copy of item {name}", { name: fork }) : i18n.t("Others find it, and run it with their own parameters.");
  return (
    <Page wide title={i18n.t("Publish an item")} lead={lead} actions={<CopyCommand words={job ? ["market", "publish", "NAME", "--job", job] : fork ? ["market", "fork", fork, "NAME"] : ["market", "publish", "NAME", "--file", "job.yaml"]} />}>
      {job && !file.data ? <Card><Loaded query={file} rows={4}>{() => null}</Loaded></Card>
        : fork && !origin.data ? <Card><Loaded query={origin} rows={4}>{() => null}</Loaded></Card>
        : <ItemForm start={origin.data ?? { protocol: file.data ?? handedOver() }} isPrivate={Boolean(fork)} onDone={(item) => done(item.name)} />}
    </Page>
  );
}
