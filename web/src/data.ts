// What is in the page: the report as JSON, and packed, the specs and the timelines.

export type Points = [number, number][];
export interface Summary { count: number; min: number; max: number; mean: number; stddev: number; p50: number; p90: number; p95: number; p99: number; p999: number }
export interface Frame { mark: string; deadline_ms: number | null; count: number; points: Points }
export interface EnergyRow { place: string; khz: number; level: string; depth: number; energy: number; seconds: number }
export interface IdleRow { state: number; name: string; usage: number; correct: number; above: number; below: number; residency_s: number; oracle: number | null }
export interface Worst { at_ns: number; cpu: number; thread: string; pid: number; us: number }
export interface Figures {
  latency_all: Points; latency: { task: string; points: Points }[]; worst: Worst | null; frames: Frame[];
  energy: { unit: string; rows: EnergyRow[] } | null; idle: IdleRow[];
}
export interface Run {
  spec: { platform: string; kernel: string; workload: string; seed: number; duration_s: number; set: Record<string, string>; hash: string };
  digest: string | null; slices: number; events: number; end_s: number; version: string;
  metrics: any; tasks: any[]; by_task: any[]; cpus: any[]; domains: { cpus: string; freq_residency: { khz: number; s: number }[]; transitions: number }[];
  deadlock: any[]; notes: { file: string; line: number; message: string }[]; trust: string[];
}
export interface Side { name: string; title: string; run: Run; figures: Figures }
export interface Estimate { mean: number | null; ci95: [number, number] | null }
export interface Ratio { value: number | null; ci95: [number, number] | null; p: number | null; p_holm: number | null; verdict: 'better' | 'worse' | 'more' | 'less' | null }
export interface Metric { name: string; unit: string; better: string; neutral: boolean; per_kernel: Estimate[]; ratio_to_first: Ratio[] }
export interface Comparison { kernels: string[]; seeds: number; metrics: Metric[]; spec: any }
export interface First { t_ms: number; a: [string, string, string] | null; b: [string, string, string] | null }
export interface Inputs { platform: string; kernels: string[]; workload: string; workload_text: string | null; dialect: string; set: string[]; seed: string; seeds: number; duration_s: number }
export interface Report {
  schema: string; version: string; kind: string; title: string; question: string; answer: string[]; command: string | null; inputs: Inputs;
  sides: Side[]; comparison: Comparison | null; first: First | null; repro: any; replay: any; sweep: any; sweep_across: string[]; notes: string[]; trust: string[];
}

/** The report; empty where the page is looked at by itself. */
export function report(): Report | null {
  const element = document.getElementById('wattif-report');
  return element ? JSON.parse(element.textContent!) : null;
}

export const canUnpack = () => typeof DecompressionStream === 'function';
export const canSimulate = () => typeof WebAssembly === 'object' && canUnpack() && document.getElementById('wattif-wasm') !== null;

/** The bytes of a packed script; no request is made for them. */
export async function unpack(id: string): Promise<ArrayBuffer | null> {
  const element = document.getElementById(id);
  if (!element || !canUnpack()) return null;
  const text = atob(element.textContent!.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

export interface Thread { pid: number; name: string; task: string; workload: boolean }
export interface Lane {
  start: Float64Array; end: Float64Array; wait: Float64Array; thread: Uint32Array; left: Uint8Array;
  idleStart: Float64Array; idleEnd: Float64Array; idleState: Uint8Array;
  sigAt: Float64Array; utilAvg: Float64Array; runnableAvg: Float64Array; utilEst: Float64Array; askedAt: Float64Array; askedKhz: Float64Array;
}
export interface Timeline {
  endNs: number; unitNs: number; floorNs: number; slices: number; shown: number;
  threads: Thread[]; states: string[][]; domainOf: number[]; lanes: Lane[];
  clocks: { at: Float64Array; khz: Float64Array }[];
  /** The highest frequency that was reached. */
  topKhz: number;
}

function column(bytes: Uint8Array, from: number, count: number): Float64Array {
  const out = new Float64Array(count);
  let at = from;
  for (let i = 0; i < count; i++) {
    let value = 0, scale = 1, byte;
    do {
      byte = bytes[at++];
      value += (byte & 0x7f) * scale;
      scale *= 128;
    } while (byte & 0x80);
    out[i] = value;
  }
  return out;
}

/** Spans from gaps and lengths, in ns. */
function spans(gap: Float64Array, dur: Float64Array, unit: number): [Float64Array, Float64Array] {
  const start = new Float64Array(gap.length), end = new Float64Array(gap.length);
  let at = 0;
  for (let i = 0; i < gap.length; i++) {
    at += gap[i];
    start[i] = at * unit;
    at += dur[i];
    end[i] = at * unit;
  }
  return [start, end];
}

function running(gap: Float64Array, unit: number): Float64Array {
  let at = 0;
  return gap.map((g) => (at += g) * unit);
}

/** Columns as the facade packs them. */
export function timeline(header: any, bytes: Uint8Array): Timeline {
  const columns = new Map<string, Float64Array>();
  let at = 0;
  for (const [name, of, count, length] of header.columns as [string, number, number, number][]) {
    columns.set(`${name}/${of}`, column(bytes, at, count));
    at += length;
  }
  const unit = header.unit_ns;
  const get = (name: string, of: number) => columns.get(`${name}/${of}`) ?? new Float64Array(0);
  const lanes = header.domain_of.map((_: number, cpu: number): Lane => {
    const [start, end] = spans(get('slice.gap', cpu), get('slice.dur', cpu), unit);
    const [idleStart, idleEnd] = spans(get('idle.gap', cpu), get('idle.dur', cpu), unit);
    return {
      start, end, wait: get('slice.wait', cpu).map((w) => w * unit),
      thread: Uint32Array.from(get('slice.thread', cpu)), left: Uint8Array.from(get('slice.left', cpu)),
      idleStart, idleEnd, idleState: Uint8Array.from(get('idle.state', cpu)),
      sigAt: running(get('sig.at', cpu), unit), utilAvg: get('sig.util_avg', cpu), runnableAvg: get('sig.runnable_avg', cpu), utilEst: get('sig.util_est', cpu),
      askedAt: running(get('asked.at', cpu), unit), askedKhz: get('asked.khz', cpu),
    };
  });
  const domains = 1 + Math.max(-1, ...header.domain_of);
  const clocks = Array.from({ length: domains }, (_, d) => ({ at: running(get('freq.at', d), unit), khz: get('freq.khz', d) }));
  return {
    endNs: header.end_ns, unitNs: unit, floorNs: header.floor_ns, slices: header.slices, shown: header.shown,
    topKhz: clocks.reduce((top, c) => c.khz.reduce((a, b) => Math.max(a, b), top), 1), threads: header.threads, states: header.states, domainOf: header.domain_of, lanes, clocks,
  };
}

/** A run: its canonical text, which only the simulator reads (a recording has none), and what is said about it. */
export interface Spec { text: string | null; hash: string; platform: string; kernel: string; workload: string; duration_s: number; trust: string[] }
export interface Packed { specs: Spec[]; timelines: Timeline[] }

/** Specs and timelines of the page. */
export async function packed(): Promise<Packed | null> {
  const buffer = await unpack('wattif-data');
  if (!buffer) return null;
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  const timelines = header.timelines.map((t: any, i: number) => {
    const bytes = new Uint8Array(buffer, at, header.lengths[i]);
    at += header.lengths[i];
    return timeline(t, bytes);
  });
  // Texts after the first hold what is their own; the rest is as in the first.
  const first: string = header.specs.find((s: any) => s.text !== null && !s.shared)?.text ?? '';
  const specs = header.specs.map((s: any) => (s.shared ? { ...s, text: first.slice(0, s.shared[0]) + s.text + first.slice(first.length - s.shared[1]) } : s));
  return { specs, timelines };
}
