// The public SSH keys with which one reaches one's tasks through the SSH gateway.
import { i18n } from "@lingui/core";
import { Button, Modal, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { answer, http, type Schemas } from "@/api/client";
import { Ask } from "@/ui/Ask";
import { CopyCommand } from "@/ui/Copy";
import { Icon } from "@/ui/Icon";
import { Loaded, Note } from "@/ui/Loaded";
import { notify } from "@/ui/notices";
import { Card } from "@/ui/Page";
import { Table } from "@/ui/Table";
import { Ago } from "@/ui/time";
import css from "./ProfilePage.module.css";

type SshKey = Schemas["SshKey"];
const KEY = ["ssh-keys"];

export function SshKeys({ username }: { username: string }) {
  const params = { path: { username } };
  const keys = useQuery({ queryKey: [...KEY, username], queryFn: () => answer(http.GET("/api/v2/users/{username}/ssh-keys", { params })) as Promise<Schemas["SshKeyList"]> });
  const [isNew, setIsNew] = useState(false);
  const [removed, setRemoved] = useState<SshKey | null>(null);
  const queries = useQueryClient();
  const remove = async (key: SshKey) => {
    await answer(http.DELETE("/api/v2/users/{username}/ssh-keys/{key}", { params: { path: { username, key: key.id } } }));
    await queries.invalidateQueries({ queryKey: KEY });
  };
  return (
    <Card title={i18n.t("SSH keys")} aside={<Button size="xs" variant="default" leftSection={<Icon name="submit" size={15} />} onClick={() => setIsNew(true)}>{i18n.t("Add a key")}</Button>} flush>
      <Loaded query={keys}>
        {(found) => {
          if (!found.sshKeys.length) return <Note icon="lock" title={i18n.t("No SSH keys")}>{i18n.t("With a key here, SSH clients and VS Code reach your running tasks.")}</Note>;
          return (
            <Table label={i18n.t("SSH keys")} heads={[i18n.t("Name"), i18n.t("Fingerprint"), i18n.t("Added"), ""]}>
              {found.sshKeys.map((key) => (
                <tr key={key.id}>
                  <td>{key.title}<small className={css.small}>{key.type}, {i18n.t("{bits} bits", { bits: key.bits })}</small></td>
                  <td><code className={css.fingerprint}>{key.fingerprint}</code></td>
                  <td>{key.addedTime ? <Ago ms={key.addedTime} /> : "–"}</td>
                  <td><Button size="compact-xs" variant="subtle" color="red" aria-label={i18n.t("Remove {name}", { name: key.title })} onClick={() => setRemoved(key)}>{i18n.t("Remove")}</Button></td>
                </tr>
              ))}
            </Table>
          );
        }}
      </Loaded>
      {isNew && <NewKey username={username} onClose={() => { setIsNew(false); void queries.invalidateQueries({ queryKey: KEY }); }} />}
      {removed && (
        <Ask title={i18n.t("Remove {name}?", { name: removed.title })} verb={i18n.t("Remove")} command={["ssh-key", "remove", removed.id.slice(0, 12)]} onClose={() => setRemoved(null)} act={() => remove(removed)}>
          <p>{i18n.t("Its open SSH connections end within seconds.")}</p>
        </Ask>
      )}
    </Card>
  );
}

function NewKey({ username, onClose }: { username: string; onClose: () => void }) {
  const [key, setKey] = useState("");
  const [title, setTitle] = useState("");
  const add = useMutation({
    mutationFn: () => answer(http.POST("/api/v2/users/{username}/ssh-keys", { params: { path: { username } }, body: { key: key.trim(), title } })),
    onSuccess: () => {
      notify(i18n.t("The key is added"));
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    add.mutate();
  };
  return (
    <Modal opened onClose={onClose} title={i18n.t("Add an SSH key")} centered closeButtonProps={{ "aria-label": i18n.t("Close") }}>
      <form className={css.form} onSubmit={submit}>
        <Textarea label={i18n.t("Public key")} description={i18n.t("One line, such as the content of ~/.ssh/id_ed25519.pub")} required withAsterisk={false} autosize minRows={3} maxRows={6} spellCheck={false}
          value={key} onChange={(event) => setKey(event.target.value)} data-autofocus />
        <TextInput label={i18n.t("Name")} description={i18n.t("Its comment, unless you write another")} value={title} onChange={(event) => setTitle(event.target.value)} />
        {add.error && <p role="alert" className={css.bad}>{add.error.message}</p>}
        <div className={css.line}>
          <CopyCommand words={["ssh-key", "add", "~/.ssh/id_ed25519.pub", ...(title ? ["--title", title] : [])]} />
          <Button type="submit" loading={add.isPending} disabled={!key.trim()}>{i18n.t("Add the key")}</Button>
        </div>
      </form>
    </Modal>
  );
}
