// A text that one page hands to the next one. It is kept nowhere else, since it may hold secrets.
let handed = "";

export function handOver(text: string): void {
  handed = text;
}

/** Returns what was handed over; "" after the page was loaded again. */
export function handedOver(): string {
  return handed;
}
