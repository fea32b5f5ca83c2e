// One task or many: how the tasks of a job start their program together.
import { i18n } from "@lingui/core";
import { NumberInput, SegmentedControl, TextInput } from "@mantine/core";
import { faultAt, textAt, type Fields } from "./fields";
import { FRAMEWORKS, launchIn, writeLaunch, type Framework, type Launch } from "./launching";
import css from "./SubmitPage.module.css";

function frameworkName(framework: Framework): string {
  switch (framework) {
    case "torchrun":
      return i18n.t("PyTorch (torchrun)");
    case "accelerate":
      return i18n.t("Hugging Face Accelerate");
    case "tensorflow":
      return i18n.t("TensorFlow (TF_CONFIG)");
    case "variables":
      return i18n.t("another, by variables");
  }
}

export function Launching({ fields }: { fields: Fields }) {
  const { document, role, at, edit } = fields;
  const launch = launchIn(document, role);
  const nodes = Number(textAt(fields, [...at, "instances"]) || 1);
  const gpus = Number(textAt(fields, [...at, "resourcePerInstance", "gpu"]) || 0);
  const write = (changed: Partial<Launch>, instances = nodes) => edit((file) => writeLaunch(file, role, { program: "train.py", ...launch, ...changed }, instances));
  const single = () => edit((file) => writeLaunch(file, role, { program: launch?.program ?? "train.py" }, 1));
  return (
    <>
      <SegmentedControl fullWidth size="xs" aria-label={i18n.t("How it runs")} value={launch?.framework ? "many" : "one"}
        data={[{ value: "one", label: i18n.t("Each task by itself") }, { value: "many", label: i18n.t("Distributed") }]}
        onChange={(value) => (value === "many" ? write({ framework: "torchrun" }, Math.max(nodes, 2)) : single())} />
      {launch?.framework && (
        <>
          <div className={css.two}>
            <label className={css.label}>
              <span>{i18n.t("Framework")}</span>
              <select className={css.choice} value={launch.framework} onChange={(event) => write({ framework: event.target.value as Framework })}>
                {FRAMEWORKS.map((one) => <option key={one} value={one}>{frameworkName(one)}</option>)}
              </select>
            </label>
            <NumberInput label={i18n.t("Nodes")} min={1} value={nodes} allowDecimal={false} hideControls error={faultAt(fields, [...at, "instances"])}
              onChange={(value) => value !== "" && Number(value) !== nodes && write({}, Number(value))} />
          </div>
          <TextInput label={i18n.t("Program and its arguments")} value={launch.program} spellCheck={false} onChange={(event) => event.target.value.trim() && write({ program: event.target.value })} />
          <p className={css.dim}>{i18n.t("{nodes} × {gpus} GPUs: all tasks start together, and each learns from the platform's variables where the others are.", { nodes, gpus })}</p>
        </>
      )}
    </>
  );
}
