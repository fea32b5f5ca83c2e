// Job files to begin with; each is valid as it is.
import { i18n } from "@lingui/core";

function file(name: string, role: string, instances: number, gpu: number, commands: string[]): string {
  return `protocolVersion: 2
name: ${name}
type: job
prerequisites:
  - type: dockerimage
    name: image
    uri: python:3.12-slim
taskRoles:
  ${role}:
    instances: ${instances}
    dockerImage: image
    resourcePerInstance:
      cpu: 1
      memoryMB: 512
      gpu: ${gpu}
    commands:
${commands.map((command) => `      - ${command}`).join("\n")}
defaults:
  virtualCluster: default
`;
}

export function examples(): { key: string; name: string; text: string }[] {
  return [
    { key: "hello", name: i18n.t("Hello"), text: file("hello", "worker", 1, 0, ["echo hello from $PAI_JOB_NAME", "sleep 20"]) },
    { key: "gpu", name: i18n.t("One GPU"), text: file("train", "worker", 1, 1, ["nvidia-smi", "python train.py"]) },
    { key: "distributed", name: i18n.t("Distributed"), text: file("distributed", "worker", 4, 1, ["echo task $PAI_TASK_INDEX of 4", "python train.py"]) },
  ];
}
