// A shell in a task, over the WebSocket of the API: messages begin with the byte of their channel.
const STDIN = 0;
const STDOUT = 1;
const STDERR = 2;
const END = 3;
const RESIZE = 4;

export interface Size {
  columns: number;
  rows: number;
}

export interface Ended {
  exitCode?: number;
  message?: string;
}

const encoder = new TextEncoder();

/** Returns a message of a channel. */
export function message(channel: number, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(data.length + 1);
  whole[0] = channel;
  whole.set(data, 1);
  return whole;
}

export class Shell {
  private readonly socket: WebSocket;
  private isOver = false;
  /** What is typed before the connection is open. */
  private readonly waiting: Uint8Array<ArrayBuffer>[] = [];

  /** `uri` is that of a ticket: it works once, for a minute. */
  constructor(uri: string, size: Size, private readonly onOutput: (data: Uint8Array) => void, private readonly onEnd: (ended: Ended) => void) {
    const address = new URL(uri, location.origin);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    for (const [name, value] of Object.entries({ tty: "true", term: "xterm-256color", columns: String(size.columns), rows: String(size.rows) })) address.searchParams.set(name, value);
    this.socket = new WebSocket(address, "v1.shell.openpai");
    this.socket.binaryType = "arraybuffer";
    this.socket.onmessage = (event: MessageEvent<ArrayBuffer>) => this.take(new Uint8Array(event.data));
    this.socket.onopen = () => this.waiting.splice(0).forEach((each) => this.socket.send(each));
    this.socket.onclose = () => this.end({});
  }

  write(text: string): void {
    this.send(STDIN, encoder.encode(text));
  }

  writeBytes(bytes: string): void {
    this.send(STDIN, Uint8Array.from(bytes, (one) => one.charCodeAt(0)));
  }

  resize(size: Size): void {
    this.send(RESIZE, encoder.encode(JSON.stringify(size)));
  }

  close(): void {
    this.isOver = true;
    this.socket.close();
  }

  private send(channel: number, data: Uint8Array): void {
    if (this.socket.readyState === WebSocket.CONNECTING) this.waiting.push(message(channel, data));
    else if (this.socket.readyState === WebSocket.OPEN) this.socket.send(message(channel, data));
  }

  private take(data: Uint8Array): void {
    const rest = data.subarray(1);
    if (data[0] === STDOUT || data[0] === STDERR) this.onOutput(rest);
    else if (data[0] === END) this.end(JSON.parse(new TextDecoder().decode(rest)) as Ended);
  }

  private end(ended: Ended): void {
    if (this.isOver) return;
    this.isOver = true;
    this.onEnd(ended);
    this.socket.close();
  }
}
