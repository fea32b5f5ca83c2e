// Many accounts from a CSV file: what is in it is shown first, and the server answers for each line.
import { i18n } from "@lingui/core";
import { Button, FileInput, Modal, Progress } from "@mantine/core";
import Papa from "papaparse";
import { useState } from "react";
import { answer, http } from "@/api/client";
import { CopyCommand } from "@/ui/Copy";
import { Table } from "@/ui/Table";
import { useChanged } from "./queries";
import css from "./UsersPage.module.css";

// The columns of `pai user import`.
const TEMPLATE = "username,password,email,admin,viewer,virtual cluster,groups\nann,change-me-soon,ann@example.org,no,no,default,team-vision\n";

interface Line {
  username: string;
  cells: Record<string, string>;
  result?: string;
  isBad?: boolean;
}

function words(text = ""): string[] {
  return text.split(/\s+/).filter(Boolean);
}

function isYes(text = ""): boolean {
  return ["true", "yes", "1"].includes(text.trim().toLowerCase());
}

export function Import({ onClose }: { onClose: () => void }) {
  const [lines, setLines] = useState<Line[]>([]);
  const [fault, setFault] = useState("");
  const [done, setDone] = useState<number | null>(null);
  const changed = useChanged();
  const read = async (file: File | null) => {
    setDone(null);
    setLines([]);
    setFault("");
    if (!file) return;
    const found = Papa.parse<Record<string, string>>(await file.text(), { header: true, skipEmptyLines: true, transformHeader: (head) => head.trim().toLowerCase() });
    const missing = ["username", "password"].filter((name) => !found.meta.fields?.includes(name));
    if (missing.length) return setFault(i18n.t("The first line has no column {names}", { names: missing.join(", ") }));
    if (found.errors[0]) return setFault(i18n.t("Line {line}: {message}", { line: (found.errors[0].row ?? 0) + 2, message: found.errors[0].message }));
    setLines(found.data.map((cells) => ({ username: cells["username"] ?? "", cells })));
  };
  const add = async () => {
    const results = [...lines];
    for (const [index, line] of lines.entries()) {
      setDone(index);
      const { cells } = line;
      const body = {
        username: line.username, password: cells["password"] ?? "", email: cells["email"] ?? "", admin: isYes(cells["admin"]), viewer: isYes(cells["viewer"]),
        virtualCluster: words(cells["virtual cluster"]), grouplist: words(cells["groups"]),
      };
      try {
        await answer(http.POST("/api/v2/users", { body }));
        results[index] = { ...line, result: i18n.t("added") };
      } catch (error) {
        results[index] = { ...line, result: (error as Error).message, isBad: true };
      }
      setLines([...results]);
    }
    setDone(lines.length);
    await changed();
  };
  const isBusy = done !== null && done < lines.length;
  return (
    <Modal opened onClose={onClose} size="lg" title={i18n.t("Import users")} closeOnClickOutside={false} closeButtonProps={{ "aria-label": i18n.t("Close") }}>
      <div className={css.form}>
        <p className={css.dim}>{i18n.t("A CSV file with a line for each user. Several groups or virtual clusters are separated by spaces.")} <a href={`data:text/csv,${encodeURIComponent(TEMPLATE)}`} download="users.csv">{i18n.t("Template")}</a></p>
        <FileInput label={i18n.t("CSV file")} accept=".csv,text/csv" placeholder={i18n.t("Choose a file")} disabled={isBusy} onChange={(file) => void read(file)} />
        {fault && <p role="alert" className={css.bad}>{fault}</p>}
        {lines.length > 0 && (
          <div className={css.rows}>
            <Table label={i18n.t("Users in the file")} heads={[i18n.t("Name"), i18n.t("E-mail"), i18n.t("Groups"), i18n.t("Result")]}>
              {lines.map((line, index) => (
                <tr key={index}>
                  <td>{line.username}</td>
                  <td>{line.cells["email"] || "–"}</td>
                  <td>{words(line.cells["groups"]).join(", ") || "–"}</td>
                  <td className={line.isBad ? css.bad : css.good}>{line.result ?? ""}</td>
                </tr>
              ))}
            </Table>
          </div>
        )}
        {isBusy && <Progress value={(100 * done) / lines.length} aria-label={i18n.t("Import users")} />}
        <div className={css.line}>
          <CopyCommand words={["user", "import", "users.csv"]} />
          <Button disabled={!lines.length || done !== null} loading={isBusy} onClick={() => void add()}>{i18n.t("{count, plural, one {Add # user} other {Add # users}}", { count: lines.length })}</Button>
        </div>
      </div>
    </Modal>
  );
}
