// What the timeline draws, apart from how: slices by binary search when there are few of them in view, and a pyramid of
// buckets (who ran most, and how much) when there are many.
import type { Lane, Timeline } from './data';

/** First index whose value is above `value`. */
export function upper(list: Float64Array, value: number): number {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Level { width: number; thread: Int32Array; busy: Float32Array }

/** Buckets of equal time, four of one level in one of the next. */
export class Pyramid {
  levels: Level[] = [];
  constructor(lane: Lane, end: number) {
    let count = 64;
    while (count < lane.start.length && count < 1 << 20) count *= 4;
    const width = Math.max(end, 1) / count;
    const thread = new Int32Array(count).fill(-1), busy = new Float32Array(count), most = new Float32Array(count);
    const add = (bucket: number, who: number, ns: number) => {
      busy[bucket] += ns;
      // Who has the longest single stay; exact enough for a pixel.
      if (ns > most[bucket]) { most[bucket] = ns; thread[bucket] = who; }
    };
    for (let i = 0; i < lane.start.length; i++) {
      const first = Math.min(count - 1, Math.floor(lane.start[i] / width)), last = Math.min(count - 1, Math.floor(lane.end[i] / width));
      for (let b = first; b <= last; b++) {
        add(b, lane.thread[i], Math.min(lane.end[i], (b + 1) * width) - Math.max(lane.start[i], b * width));
      }
    }
    for (let b = 0; b < count; b++) busy[b] /= width;
    this.levels.push({ width, thread, busy });
    while (this.levels.at(-1)!.busy.length > 64) this.levels.push(coarser(this.levels.at(-1)!));
  }
  /** The coarsest level with a bucket no wider than `ns`. */
  level(ns: number): Level {
    return this.levels.findLast((l) => l.width <= ns) ?? this.levels[0];
  }
}

function coarser(fine: Level): Level {
  const count = fine.busy.length / 4;
  const thread = new Int32Array(count), busy = new Float32Array(count);
  for (let b = 0; b < count; b++) {
    let best = b * 4;
    for (let i = b * 4; i < b * 4 + 4; i++) {
      busy[b] += fine.busy[i] / 4;
      if (fine.busy[i] > fine.busy[best]) best = i;
    }
    thread[b] = fine.thread[best];
  }
  return { width: fine.width * 4, thread, busy };
}

export interface Hit { side: number; cpu: number; what: 'slice' | 'idle' | 'frequency'; index: number; at: number }

/** What is at a time on a lane; `near` is how far a click may miss, ns. */
export function hit(t: Timeline, cpu: number, part: 'slice' | 'idle' | 'frequency', at: number, near: number): { index: number } | null {
  if (part === 'frequency') {
    const clock = t.clocks[t.domainOf[cpu]];
    const index = upper(clock.at, at) - 1;
    return index >= 0 ? { index } : null;
  }
  const lane = t.lanes[cpu];
  const [start, end] = part === 'slice' ? [lane.start, lane.end] : [lane.idleStart, lane.idleEnd];
  const index = upper(start, at) - 1;
  if (index >= 0 && at <= end[index] + near) return { index };
  if (index + 1 < start.length && start[index + 1] - at <= near) return { index: index + 1 };
  return null;
}

/** The first time at which two timelines show something else: who runs where, or how fast. */
export function parting(a: Timeline, b: Timeline): number | null {
  let first = Infinity;
  const look = (x: Float64Array, y: Float64Array, same: (i: number) => boolean) => {
    const most = Math.max(x.length, y.length);
    for (let i = 0; i < most; i++) {
      const at = Math.min(x[i] ?? Infinity, y[i] ?? Infinity);
      if (at >= first) return;
      if (i >= x.length || i >= y.length || x[i] !== y[i] || !same(i)) { first = at; return; }
    }
  };
  a.lanes.forEach((lane, cpu) => {
    const other = b.lanes[cpu];
    if (!other) return;
    look(lane.start, other.start, (i) => a.threads[lane.thread[i]]?.name === b.threads[other.thread[i]]?.name);
    look(lane.idleStart, other.idleStart, (i) => lane.idleState[i] === other.idleState[i]);
  });
  a.clocks.forEach((clock, d) => b.clocks[d] && look(clock.at, b.clocks[d].at, (i) => clock.khz[i] === b.clocks[d].khz[i]));
  return Number.isFinite(first) ? first : null;
}

/** The slice that was waited for longest, of threads of the workload. */
export function worst(t: Timeline): { cpu: number; index: number; wait: number } | null {
  let found: { cpu: number; index: number; wait: number } | null = null;
  t.lanes.forEach((lane, cpu) => {
    for (let i = 0; i < lane.wait.length; i++) {
      if (lane.wait[i] > (found?.wait ?? 0) && t.threads[lane.thread[i]]?.workload) found = { cpu, index: i, wait: lane.wait[i] };
    }
  });
  return found;
}
