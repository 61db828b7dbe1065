// The simulator in the page: a worker with the WebAssembly, asked one thing at a time. Cancelling ends the worker; the next
// question begins a new one.
import { canSimulate, timeline, unpack, type Timeline } from './data';

/** Runs in the worker; it may use nothing from outside. */
function inside() {
  let exports: any;
  const scope = self as any;
  scope.onmessage = async ({ data }: MessageEvent) => {
    try {
      if (data.wasm) {
        const page = { progress: (share: number) => scope.postMessage({ progress: share }) };
        exports = (await WebAssembly.instantiate(data.wasm, { page })).instance.exports;
        scope.postMessage({ ready: true });
        return;
      }
      const request = new TextEncoder().encode(data.request);
      const at = exports.wattif_input(request.length);
      new Uint8Array(exports.memory.buffer, at, request.length).set(request);
      const length = exports.wattif_answer();
      const memory = exports.memory.buffer;
      const json = new TextDecoder().decode(new Uint8Array(memory, exports.wattif_json(), length));
      const bytes = new Uint8Array(memory, exports.wattif_bytes(), exports.wattif_bytes_length()).slice();
      scope.postMessage({ json, bytes }, [bytes.buffer]);
    } catch (e) {
      scope.postMessage({ broken: String(e) });
    }
  };
}

export class Refused extends Error {
  constructor(message: string, public findings: any[]) { super(message); }
}

interface Job { request: string; progress?: (share: number) => void; done: (answer: { ok: any; bytes: Uint8Array }) => void; failed: (e: Error) => void }

export class Engine {
  private worker: Worker | null = null;
  /** The worker, once it can be asked. */
  private ready: Promise<Worker> | null = null;
  private waiting: Job[] = [];
  private now: Job | null = null;
  private wasm: Promise<ArrayBuffer | null> | null = null;

  static make(): Engine | null {
    return canSimulate() ? new Engine() : null;
  }

  /** The `ok` of an answer; throws [`Refused`]. */
  async ask(request: object, progress?: (share: number) => void): Promise<any> {
    return (await this.askBytes(request, progress)).ok;
  }

  askBytes(request: object, progress?: (share: number) => void): Promise<{ ok: any; bytes: Uint8Array }> {
    return new Promise((done, failed) => {
      this.waiting.push({ request: JSON.stringify(request), progress, done, failed });
      this.next();
    });
  }

  async run(spec: string, progress?: (share: number) => void): Promise<{ side: any; sentences: string[]; timeline: Timeline }> {
    const { ok, bytes } = await this.askBytes({ do: 'run', spec }, progress);
    return { side: ok.side, sentences: ok.sentences, timeline: timeline(ok.timeline, bytes) };
  }

  /** End what is under way. */
  cancel() {
    // One whose code is still being unpacked is for the next question.
    if (this.worker) this.end();
    const all = [this.now, ...this.waiting].filter((j): j is Job => j !== null);
    [this.now, this.waiting] = [null, []];
    all.forEach((job) => job.failed(new Error('cancelled')));
  }

  private async next() {
    if (this.now || !this.waiting.length) return;
    const job = (this.now = this.waiting.shift()!);
    const ready = (this.ready ??= this.start());
    try {
      const worker = await ready;
      // Cancelled while it began, this is no longer what is asked.
      if (this.now === job) worker.postMessage({ request: job.request });
    } catch (e) {
      if (this.ready === ready) this.end();
      if (this.now === job) this.finish((job) => job.failed(e as Error));
    }
  }

  private end() {
    this.worker?.terminate();
    [this.worker, this.ready] = [null, null];
  }

  private async start(): Promise<Worker> {
    this.wasm ??= unpack('wattif-wasm');
    const wasm = await this.wasm;
    if (!wasm) throw new Error('the simulator is not in this page');
    const url = URL.createObjectURL(new Blob([`(${inside.toString()})()`], { type: 'text/javascript' }));
    const worker = new Worker(url);
    this.worker = worker;
    await new Promise<void>((ready, failed) => {
      worker.onmessage = ({ data }) => (data.ready ? ready() : failed(new Error(data.broken)));
      worker.onerror = (e) => failed(new Error(e.message || 'the worker did not start'));
      worker.postMessage({ wasm });
    });
    URL.revokeObjectURL(url);
    worker.onmessage = ({ data }) => this.heard(data);
    return worker;
  }

  private heard(data: any) {
    if (data.progress !== undefined) return this.now?.progress?.(data.progress);
    if (data.broken) {
      this.end();
      return this.finish((job) => job.failed(new Error(`the simulator stopped: ${data.broken}`)));
    }
    const answer = JSON.parse(data.json);
    this.finish((job) => (answer.error ? job.failed(new Refused(answer.error, answer.findings ?? [])) : job.done({ ok: answer.ok, bytes: data.bytes })));
  }

  private finish(tell: (job: Job) => void) {
    const job = this.now;
    this.now = null;
    if (job) tell(job);
    this.next();
  }
}
