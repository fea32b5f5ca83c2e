// Saves text as a file of the user.
export function saved(name: string, text: string, type: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name.replaceAll("~", "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
