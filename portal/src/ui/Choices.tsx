// Several of a few names, each with a box of its own.
import { Checkbox } from "@mantine/core";
import css from "./Choices.module.css";

interface ChoicesProps {
  label: string;
  all: readonly string[];
  chosen: readonly string[];
  choose: (names: string[]) => void;
}

export function Choices({ label, all, chosen, choose }: ChoicesProps) {
  // What was granted stays visible, also if it does not exist any more.
  const names = [...new Set([...all, ...chosen])];
  return (
    <fieldset className={css.choices}>
      <legend>{label}</legend>
      {names.map((name) => (
        <Checkbox key={name} label={name} checked={chosen.includes(name)} onChange={(event) => choose(event.target.checked ? [...chosen, name] : chosen.filter((one) => one !== name))} />
      ))}
      {!names.length && <span className={css.dim}>–</span>}
    </fieldset>
  );
}
