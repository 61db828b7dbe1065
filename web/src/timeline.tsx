// The timeline: CPU lanes of A above those of B on one axis of time. Under each lane its idle states and its frequency.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Legend, Name, Table } from './charts';
import type { First, Spec, Timeline } from './data';
import { COLOURS, ghz, name, num, time } from './format';
import { hit, parting, Pyramid, upper, worst, type Hit } from './lanes';
import { Absent, Section } from './sections';
import type { Engine } from './engine';

const HEAD = 22, TITLE = 20, LANE = 20, IDLE = 5, FREQ = 9, GAP = 6, SIGNALS = 34, LEFT = 56;
const LEFT_AS = ['preempted', 'slept', 'waited for a device', 'ended'];

/** A run of the report; the timelines of the first two are in the file. */
export interface Run { name: string; spec: Spec; digest: string | null; timeline: Timeline | null }
interface Shown { name: string; timeline: Timeline; spec: Spec }
interface View { from: number; to: number }
interface Row { side: number; cpu: number; y: number; height: number }

const css = (property: string) => getComputedStyle(document.documentElement).getPropertyValue(property).trim();

/** The same colour for the same task on both sides. */
function palette(sides: Shown[]): Map<string, string> {
  const tasks = [...new Set(sides.flatMap((s) => s.timeline.threads.filter((t) => t.workload).map((t) => t.task)))];
  return new Map(tasks.map((task, i) => [task, i < 6 ? COLOURS[i] : `hsl(${(i * 137.5) % 360} 45% ${45 + (i % 3) * 10}%)`]));
}

/** Two of the runs; one whose timeline is not in the file is simulated again when it is chosen. */
export function TimelineSection({ runs, first, engine, theme }: { runs: Run[]; first: First | null; engine: Engine | null; theme: string }) {
  const [pair, setPair] = useState<number[]>([]);
  const [made, setMade] = useState<Record<number, Timeline>>({});
  const [status, setStatus] = useState('');
  const inFile = runs.flatMap((r, i) => (r.timeline ? [i] : []));
  useEffect(() => { setPair([]); setMade({}); setStatus(''); }, [runs]);
  const chosen = pair.length && pair.every((i) => i < runs.length) ? pair : inFile.slice(0, 2);
  const timeline = (i: number) => runs[i].timeline ?? made[i];
  const sides = useMemo(() => chosen.map((i) => ({ name: runs[i].name, spec: runs[i].spec, timeline: timeline(i) })), [runs, made, chosen.join()]);
  if (!inFile.length) return null;
  const choose = async (side: number, i: number) => {
    const next = chosen.map((old, k) => (k === side ? i : old));
    if (!timeline(i)) {
      const tell = (share: number) => setStatus(`simulating ${name(runs[i].name)} again … ${Math.round(share * 100)} %`);
      tell(0);
      try {
        const ran = await engine!.run(runs[i].spec.text!, tell);
        setMade((m) => ({ ...m, [i]: ran.timeline }));
        setStatus(ran.side.run.digest === runs[i].digest ? '' : 'ANOTHER digest than in the report: it was written by another version of wattif');
      } catch (e) {
        return setStatus(String((e as Error).message));
      }
    }
    setPair(next);
  };
  // What parts first was found for the first two that were simulated.
  const explained = runs.flatMap((r, i) => (r.spec.text ? [i] : [])).slice(0, 2);
  const isExplained = explained.length === 2 && explained.every((i) => chosen.includes(i));
  return (
    <Section id="timeline" title="Timeline">
      {runs.length > 2 ? <div class="bar">
        {chosen.map((now, side) => <label>{'AB'[side]}{' '}
          <select id={`timeline-${'ab'[side]}`} value={String(now)} onChange={(e) => choose(side, Number(e.currentTarget.value))}>
            {runs.map((r, i) => <option value={String(i)} disabled={!timeline(i) && !(engine && r.spec.text)}>{name(r.name)}</option>)}
          </select></label>)}
        <span role="status" id="timeline-status">{status}</span>
      </div> : null}
      <View key={chosen.join()} sides={sides} first={isExplained ? first : null} engine={engine} theme={theme} />
    </Section>
  );
}

function View({ sides, first, engine, theme }: { sides: Shown[]; first: First | null; engine: Engine | null; theme: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const end = Math.max(...sides.map((s) => s.timeline.endNs), 1);
  const state = useRef({ from: 0, to: end, hover: null as Hit | null });
  const [selected, select] = useState<Hit | null>(null);
  const [signals, setSignals] = useState(false);
  const [query, setQuery] = useState('');
  const [found, setFound] = useState('');
  const [help, setHelp] = useState(false);
  const [shown, setShown] = useState<View>({ from: 0, to: end });
  const [why, setWhy] = useState<any>(null);
  const colours = useMemo(() => palette(sides), [sides]);
  const pyramids = useMemo(() => sides.map((s) => s.timeline.lanes.map((l) => new Pyramid(l, s.timeline.endNs))), [sides]);
  const divergence = useMemo(() => (sides.length > 1 ? (first ? first.t_ms * 1e6 : parting(sides[0].timeline, sides[1].timeline)) : null), [sides, first]);
  const longest = useMemo(() => sides.map((s) => worst(s.timeline)), [sides]);
  const rows = useMemo(() => {
    const all: Row[] = [];
    let y = HEAD;
    sides.forEach((s, side) => {
      y += TITLE + 2;
      s.timeline.lanes.forEach((_, cpu) => {
        const height = LANE + IDLE + FREQ + (signals ? SIGNALS : 0);
        all.push({ side, cpu, y, height });
        y += height + GAP;
      });
    });
    return { all, height: y + 4 };
  }, [sides, signals]);
  const matches = (thread: number, side: number) => {
    const t = sides[side].timeline.threads[thread];
    return query === '' || (t !== undefined && t.name.toLowerCase().includes(query.toLowerCase()));
  };

  const draw = useRef(() => {});
  const pending = useRef(0);
  const redraw = () => {
    if (!pending.current) pending.current = requestAnimationFrame(() => { pending.current = 0; draw.current(); });
  };
  const settle = useRef(0);
  const go = (from: number, to: number) => {
    const length = Math.min(end, Math.max(50, to - from));
    const begin = Math.min(Math.max(from, 0), end - length);
    state.current.from = begin;
    state.current.to = begin + length;
    redraw();
    clearTimeout(settle.current);
    settle.current = window.setTimeout(() => setShown({ from: begin, to: begin + length }), 120);
  };
  const zoom = (factor: number, around = 0.5) => {
    const { from, to } = state.current;
    const middle = from + (to - from) * around;
    go(middle - (middle - from) * factor, middle + (to - middle) * factor);
  };
  const pan = (share: number) => {
    const { from, to } = state.current;
    go(from + (to - from) * share, to + (to - from) * share);
  };
  const show = (h: Hit, width = 0) => {
    const [from, to] = extent(sides[h.side].timeline, h);
    const half = Math.max(width, (to - from) * 2, 20_000);
    go((from + to) / 2 - half, (from + to) / 2 + half);
    select(h);
  };

  draw.current = () => {
    const begun = performance.now();
    const element = canvas.current;
    if (!element) return;
    const scale = window.devicePixelRatio || 1;
    const width = element.clientWidth, height = rows.height;
    if (element.width !== Math.round(width * scale) || element.height !== Math.round(height * scale)) {
      element.width = Math.round(width * scale);
      element.height = Math.round(height * scale);
    }
    const g = element.getContext('2d')!;
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.fillStyle = css('--card');
    g.fillRect(0, 0, width, height);
    g.font = '11px system-ui, sans-serif';
    const { from, to } = state.current;
    const x = (at: number) => LEFT + ((at - from) / (to - from)) * (width - LEFT);
    axis(g, x, from, to, width, height);
    const style = { text: css('--text'), muted: css('--muted'), idle: css('--idle'), wait: css('--wait'), other: css('--other'), lane: css('--lane'), select: css('--accent'), freq: css('--freq') };
    let title = -1;
    for (const row of rows.all) {
      const { timeline, name: kernel } = sides[row.side];
      if (title !== row.side) {
        title = row.side;
        g.fillStyle = style.text;
        g.font = '600 12px system-ui, sans-serif';
        g.fillText(`${sides.length > 1 ? 'AB'[row.side] + ' · ' : ''}${name(kernel)}`, 4, row.y - 6);
        g.font = '11px system-ui, sans-serif';
      }
      const lane = timeline.lanes[row.cpu];
      g.fillStyle = style.muted;
      g.fillText(`cpu${row.cpu}`, 4, row.y + 14);
      g.save();
      g.beginPath();
      g.rect(LEFT, row.y - 5, width - LEFT, row.height + 5);
      g.clip();
      g.fillStyle = style.lane;
      g.fillRect(LEFT, row.y, width - LEFT, LANE);
      const colourOf = (thread: number) => {
        const t = timeline.threads[thread];
        return t?.workload ? colours.get(t.task)! : style.other;
      };
      const low = Math.max(0, upper(lane.start, from) - 1), high = upper(lane.start, to);
      const pixel = (to - from) / (width - LEFT);
      if (high - low > 1.5 * width) {
        const level = pyramids[row.side][row.cpu].level(pixel);
        const step = Math.max(level.width, pixel);
        for (let at = Math.floor(from / step) * step; at < to; at += step) {
          const bucket = Math.min(level.busy.length - 1, Math.floor((at + step / 2) / level.width));
          const thread = level.thread[bucket];
          if (bucket < 0 || thread < 0) continue;
          g.globalAlpha = (query && !matches(thread, row.side) ? 0.12 : 1) * Math.min(1, 0.25 + 0.75 * level.busy[bucket]);
          g.fillStyle = colourOf(thread);
          const tall = Math.max(2, LANE * Math.min(1, level.busy[bucket]));
          g.fillRect(x(at), row.y + LANE - tall, Math.max(1, x(at + step) - x(at)), tall);
        }
        g.globalAlpha = 1;
      } else {
        // Waiting reaches back from a slice, so one more may begin before it is in view.
        for (let i = low; i < Math.min(high + 8, lane.start.length); i++) {
          const a = x(lane.start[i]), b = x(lane.end[i]);
          const dim = query && !matches(lane.thread[i], row.side);
          if (lane.wait[i] > 0 && !dim) {
            const w = x(lane.start[i] - lane.wait[i]);
            if (a - w >= 0.7) {
              g.fillStyle = style.wait;
              // Above the lane: who runs meanwhile stays readable.
              g.fillRect(w, row.y - 4, a - w, 3);
              g.fillRect(a - 1, row.y - 4, 1.5, 6);
            }
          }
          g.globalAlpha = dim ? 0.15 : 1;
          g.fillStyle = colourOf(lane.thread[i]);
          g.fillRect(a, row.y, Math.max(0.7, b - a - (b - a > 4 ? 0.5 : 0)), LANE);
          if (b - a > 34 && !dim) {
            g.fillStyle = '#fff';
            const label = name(timeline.threads[lane.thread[i]]?.name ?? '');
            g.save();
            g.beginPath();
            g.rect(a, row.y, b - a - 2, LANE);
            g.clip();
            g.fillText(label, Math.max(a, LEFT) + 4, row.y + 14);
            g.restore();
          }
        }
        g.globalAlpha = 1;
      }
      sleeps(g, timeline, row, from, to, x, width, style.idle);
      clock(g, timeline, row, from, to, x, width, style.freq);
      if (signals) tracks(g, timeline, row, from, to, x, width, style);
      g.restore();
    }
    if (divergence !== null && divergence >= from && divergence <= to) {
      g.strokeStyle = style.select;
      g.setLineDash([4, 3]);
      g.beginPath();
      g.moveTo(x(divergence), HEAD);
      g.lineTo(x(divergence), height);
      g.stroke();
      g.setLineDash([]);
    }
    if (selected) {
      const row = rows.all.find((r) => r.side === selected.side && r.cpu === selected.cpu);
      const [a, b] = extent(sides[selected.side].timeline, selected);
      if (row) {
        g.strokeStyle = style.text;
        g.lineWidth = 2;
        const [top, tall] = selected.what === 'slice' ? [0, LANE] : selected.what === 'idle' ? [LANE, IDLE] : [LANE + IDLE, FREQ];
        g.strokeRect(Math.max(LEFT - 3, x(a)) - 1, row.y + top - 1, Math.max(3, Math.min(width + 3, x(b)) - Math.max(LEFT - 3, x(a))) + 2, tall + 2);
        g.lineWidth = 1;
      }
    }
    element.dataset.frameMs = (performance.now() - begun).toFixed(2);
  };

  useEffect(() => { go(0, end); }, [sides]);
  useEffect(redraw, [sides, signals, selected, query, theme, rows]);
  useEffect(() => {
    const element = canvas.current!;
    const observer = new ResizeObserver(redraw);
    observer.observe(element);
    // Not passive: a zoom must not scroll the page.
    const wheel = (e: WheelEvent) => {
      const share = (e.offsetX - LEFT) / (element.clientWidth - LEFT);
      if (e.ctrlKey || e.metaKey) { e.preventDefault(); zoom(Math.exp(e.deltaY * 0.003), Math.min(1, Math.max(0, share))); }
      else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) { e.preventDefault(); pan((e.deltaX || e.deltaY) / element.clientWidth); }
    };
    element.addEventListener('wheel', wheel, { passive: false });
    return () => { observer.disconnect(); element.removeEventListener('wheel', wheel); };
  }, [sides]);

  const at = (e: PointerEvent): Hit | null => {
    const element = canvas.current!;
    const bounds = element.getBoundingClientRect();
    const [px, py] = [e.clientX - bounds.left, e.clientY - bounds.top];
    const row = rows.all.find((r) => py >= r.y && py < r.y + r.height);
    if (!row || px < LEFT) return null;
    const { from, to } = state.current;
    const pixel = (to - from) / (element.clientWidth - LEFT);
    const when = from + (px - LEFT) * pixel;
    const deep = py - row.y;
    const part = deep < LANE ? 'slice' : deep < LANE + IDLE + 1 ? 'idle' : 'frequency';
    const found = hit(sides[row.side].timeline, row.cpu, part, when, pixel * 3);
    return found && { side: row.side, cpu: row.cpu, what: part, index: found.index, at: when };
  };
  const touches = useRef(new Map<number, number>());
  const dragged = useRef(0);
  const down = (e: PointerEvent) => {
    canvas.current!.setPointerCapture(e.pointerId);
    touches.current.set(e.pointerId, e.clientX);
    if (touches.current.size === 1) dragged.current = 0;
  };
  const move = (e: PointerEvent) => {
    const known = touches.current.get(e.pointerId);
    const width = canvas.current!.clientWidth - LEFT;
    if (known === undefined) {
      const h = at(e);
      canvas.current!.title = h ? title(sides[h.side].timeline, h) : '';
      return;
    }
    if (touches.current.size === 1) {
      dragged.current += Math.abs(e.clientX - known);
      pan((known - e.clientX) / width);
    } else {
      const other = [...touches.current].find(([id]) => id !== e.pointerId)![1];
      const before = Math.abs(known - other), after = Math.abs(e.clientX - other);
      dragged.current += 10;
      if (after > 4) zoom(before / after, Math.min(1, Math.max(0, ((known + other) / 2 - canvas.current!.getBoundingClientRect().left - LEFT) / width)));
    }
    touches.current.set(e.pointerId, e.clientX);
  };
  const up = (e: PointerEvent) => {
    touches.current.delete(e.pointerId);
    if (dragged.current < 5 && touches.current.size === 0) select(at(e));
  };

  const step = (by: number) => {
    const { from, to } = state.current;
    const row = selected ?? { side: 0, cpu: 0, what: 'slice' as const, index: -1, at: from };
    const lane = sides[row.side].timeline.lanes[row.cpu];
    if (!lane.start.length) return;
    const begin = selected?.what === 'slice' ? selected.index + by : upper(lane.start, (from + to) / 2) - (by > 0 ? 0 : 1);
    let index = begin;
    while (query && index >= 0 && index < lane.start.length && !matches(lane.thread[index], row.side)) index += by;
    if (index < 0 || index >= lane.start.length) return;
    const h: Hit = { side: row.side, cpu: row.cpu, what: 'slice', index, at: lane.start[index] };
    select(h);
    if (lane.start[index] < from || lane.end[index] > to) go(lane.start[index] - (to - from) / 2, lane.start[index] + (to - from) / 2);
  };
  const lane = (by: number) => {
    const now = rows.all.findIndex((r) => selected && r.side === selected.side && r.cpu === selected.cpu);
    const row = rows.all[Math.min(rows.all.length - 1, Math.max(0, now + by))];
    const t = sides[row.side].timeline;
    const when = selected?.at ?? (state.current.from + state.current.to) / 2;
    const index = Math.max(0, upper(t.lanes[row.cpu].start, when) - 1);
    if (t.lanes[row.cpu].start.length) select({ side: row.side, cpu: row.cpu, what: 'slice', index, at: when });
  };
  const explain = async (say: typeof setWhy) => {
    if (!selected || !engine) return;
    const s = sides[selected.side];
    if (!s.spec.text) return;
    say({ busy: true });
    try {
      say(await engine.ask({ do: 'why', spec: s.spec.text, ...question(s.timeline, selected) }));
    } catch (e) {
      say({ error: String((e as Error).message ?? e) });
    }
  };
  // An answer is for what was selected when it was asked for.
  useEffect(() => {
    let live = true;
    setWhy(null);
    explain((answer) => { if (live) setWhy(answer); });
    return () => { live = false; };
  }, [selected]);

  const search = (by: number) => {
    if (!query) return;
    const begin = selected?.what === 'slice' ? sides[selected.side].timeline.lanes[selected.cpu].start[selected.index] : state.current.from - 1;
    let best: Hit | null = null;
    sides.forEach((s, side) => s.timeline.lanes.forEach((l, cpu) => {
      for (let i = by > 0 ? upper(l.start, begin) : upper(l.start, begin) - 1; i >= 0 && i < l.start.length; i += by) {
        if (l.start[i] === begin || !matches(l.thread[i], side)) continue;
        if (!best || by * (l.start[i] - best.at) < 0) best = { side, cpu, what: 'slice', index: i, at: l.start[i] };
        break;
      }
    }));
    setFound(best ? '' : 'no more slices of such a thread');
    if (best) show(best, (state.current.to - state.current.from) / 2);
  };
  const keys: Record<string, () => void> = {
    w: () => zoom(0.7), s: () => zoom(1 / 0.7), a: () => pan(-0.25), d: () => pan(0.25), '+': () => zoom(0.7), '-': () => zoom(1 / 0.7),
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowUp: () => lane(-1), ArrowDown: () => lane(1),
    Home: () => go(0, end), '0': () => go(0, end), f: () => selected && show(selected), Escape: () => { select(null); setHelp(false); },
    n: () => search(1), N: () => search(-1), '?': () => setHelp(!help), x: () => jumpFirst(), l: () => jumpWorst(0),
    '/': () => document.getElementById('search')?.focus(),
  };
  const key = (e: KeyboardEvent) => {
    const act = keys[e.key] ?? keys[e.key.toLowerCase()];
    if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    act();
  };
  const jumpFirst = () => divergence !== null && go(divergence - 2e6, divergence + 2e6);
  const jumpWorst = (side: number) => {
    const w = longest[side];
    if (w) show({ side, cpu: w.cpu, what: 'slice', index: w.index, at: sides[side].timeline.lanes[w.cpu].start[w.index] }, w.wait * 1.5);
  };
  const inView = useMemo(() => table(sides, shown), [sides, shown]);
  const kernels = sides.map((s, i) => (sides.length > 1 ? `${'AB'[i]} ` : '') + name(s.name));
  return (
    <>
      <div class="bar" role="toolbar" aria-label="Timeline">
        <button type="button" onClick={() => go(0, end)}>Whole run</button>
        <button type="button" onClick={() => zoom(0.5)} aria-label="Zoom in">+</button>
        <button type="button" onClick={() => zoom(2)} aria-label="Zoom out">−</button>
        <button type="button" onClick={() => pan(-0.5)} aria-label="Earlier">←</button>
        <button type="button" onClick={() => pan(0.5)} aria-label="Later">→</button>
        {sides.length > 1 ? <button type="button" id="jump-first" disabled={divergence === null} onClick={jumpFirst}>{divergence === null ? 'No divergence' : 'First divergence'}</button> : null}
        {sides.map((_, i) => <button type="button" class="jump-worst" disabled={!longest[i]} onClick={() => jumpWorst(i)}>Worst latency {sides.length > 1 ? 'AB'[i] : ''}</button>)}
        <label><input type="checkbox" checked={signals} onChange={(e) => setSignals(e.currentTarget.checked)} /> signals</label>
        <label>task <input id="search" type="search" value={query} placeholder="name" onInput={(e) => setQuery(e.currentTarget.value)}
          onKeyDown={(e) => { if (e.key === 'Enter') { e.preventDefault(); search(e.shiftKey ? -1 : 1); } }} /></label>
        <button type="button" aria-expanded={help} onClick={() => setHelp(!help)}>Keys</button>
        <span role="status">{found}</span>
      </div>
      {help ? <p class="hint keys">W S zoom · A D pan · ← → slice · ↑ ↓ lane · F to the selection · 0 whole run · X first divergence · L worst latency · / search · N next match · Ctrl+wheel zooms, dragging pans, two fingers pinch</p> : null}
      <div class="canvas">
        <canvas ref={canvas} tabIndex={0} role="application" aria-label={`Timeline of ${kernels.join(' above ')}: lanes of ${sides[0].timeline.lanes.length} CPUs; the table below lists what is in view`}
          style={{ height: `${rows.height}px` }} onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerCancel={(e) => touches.current.delete(e.pointerId)} onKeyDown={key} />
      </div>
      <Legend entries={[...[...colours].slice(0, 14), ['background', 'var(--other)'], ['woken, not yet running', 'var(--wait)', 'thin'], ['idle state, deeper is stronger', 'var(--idle)', 'thin'], ['frequency', 'var(--freq)', 'thin'],
        ...(signals ? [['util_avg', '#009e73', 'thin'], ['runnable_avg', '#d55e00', 'thin'], ['util_est, or WALT demand', '#cc79a7', 'thin'], ['requested frequency', 'var(--text)', 'thin']] as [string, string, string][] : [])]} />
      <div class="selected" aria-live="polite">
        {selected ? <Details shown={sides[selected.side]} h={selected} why={why} engine={engine !== null} /> : <p class="hint">Click a slice, an idle state or a frequency (or use the arrow keys) to see why.</p>}
      </div>
      <details class="behind"><summary>What is in view as a table ({time(shown.from)} to {time(shown.to)})</summary>
        <Table caption={`Slices between ${time(shown.from)} and ${time(shown.to)}: ${inView.rows.length} of ${inView.all}`} head={['kernel', 'cpu', 'thread', 'from, ms', 'length, µs', 'waited, µs']} rows={inView.rows} />
      </details>
    </>
  );
}

function extent(t: Timeline, h: Hit): [number, number] {
  const lane = t.lanes[h.cpu];
  if (h.what === 'slice') return [lane.start[h.index], lane.end[h.index]];
  if (h.what === 'idle') return [lane.idleStart[h.index], lane.idleEnd[h.index]];
  const clock = t.clocks[t.domainOf[h.cpu]];
  return [clock.at[h.index], clock.at[h.index + 1] ?? t.endNs];
}

/** The time of the decision: when it ran, slept, or the clock was told. */
function question(t: Timeline, h: Hit) {
  const [from] = extent(t, h);
  const slack = t.unitNs > 1 ? t.unitNs : 0;
  return { at_ns: Math.round(from + slack), cpu: h.cpu, pid: h.what === 'slice' ? t.threads[t.lanes[h.cpu].thread[h.index]].pid : null, what: h.what };
}

function title(t: Timeline, h: Hit): string {
  const [from, to] = extent(t, h);
  const lane = t.lanes[h.cpu];
  if (h.what === 'slice') {
    const wait = lane.wait[h.index];
    return `${name(t.threads[lane.thread[h.index]].name)}: ${time(to - from)}${wait ? `, after waiting ${time(wait)}` : ''}`;
  }
  if (h.what === 'idle') return `${t.states[h.cpu][lane.idleState[h.index]] ?? 'idle'}: ${time(to - from)}`;
  return ghz(t.clocks[t.domainOf[h.cpu]].khz[h.index]);
}

function Details({ shown, h, why, engine }: { shown: Shown; h: Hit; why: any; engine: boolean }) {
  const t = shown.timeline, lane = t.lanes[h.cpu];
  const [from, to] = extent(t, h);
  const facts: [string, string][] = [['kernel', shown.name], ['CPU', String(h.cpu)], ['from', `${Number(num(from / 1e6, 9))} ms`], ['length', time(to - from)]];
  if (h.what === 'slice') {
    const thread = t.threads[lane.thread[h.index]];
    facts.unshift(['thread', `${thread.name} (pid ${thread.pid})`]);
    facts.push(['waited since it was woken', lane.wait[h.index] ? time(lane.wait[h.index]) : 'was not woken for this'], ['then', LEFT_AS[lane.left[h.index]] ?? '']);
  } else if (h.what === 'idle') facts.unshift(['idle state', t.states[h.cpu][lane.idleState[h.index]] ?? String(lane.idleState[h.index])]);
  else facts.unshift(['frequency', ghz(t.clocks[t.domainOf[h.cpu]].khz[h.index])]);
  return (
    <div>
      <dl>{facts.map(([k, v]) => <div><dt>{k}</dt><dd><Name text={v} /></dd></div>)}</dl>
      <h3>Why</h3>
      {!shown.spec.text ? <Absent>This was recorded, not simulated: the decisions behind it are not in the trace.</Absent> : !engine ? <Absent>The simulator is not in this page or this browser cannot run it; `wattif run --trace-detail decisions` writes every decision.</Absent>
        : why?.busy || !why ? <p class="hint">running it again …</p>
          : why.error ? <p class="note">{why.error}</p>
            : why.decisions.length ? <Table caption="Decisions behind it, the last one last" head={['at, ms', 'policy', 'decided', 'with']} rows={why.decisions.map((d: any) => [String(Number(num(d.at_ns / 1e6, 9))), d.policy, d.what, d.because])} />
              : <p>Nothing was decided about it in the two seconds before: it was so from the start.</p>}
    </div>
  );
}

/** Slices in view, the first of them. */
function table(sides: Shown[], { from, to }: View) {
  let all = 0;
  const rows: (string | number)[][] = [];
  for (const s of sides) {
    s.timeline.lanes.forEach((lane, cpu) => {
      const low = Math.max(0, upper(lane.end, from)), high = upper(lane.start, to);
      all += Math.max(0, high - low);
      for (let i = low; i < high && rows.length < 200; i++) {
        rows.push([s.name, cpu, s.timeline.threads[lane.thread[i]]?.name ?? '', lane.start[i] / 1e6, (lane.end[i] - lane.start[i]) / 1e3, lane.wait[i] / 1e3]);
      }
    });
  }
  return { all, rows };
}

function axis(g: CanvasRenderingContext2D, x: (at: number) => number, from: number, to: number, width: number, height: number) {
  const rough = (to - from) / Math.max(2, (width - LEFT) / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough)!;
  g.strokeStyle = css('--grid');
  g.fillStyle = css('--muted');
  const unit: [number, string] = step >= 1e8 ? [1e9, 's'] : step >= 1e5 ? [1e6, 'ms'] : step >= 100 ? [1e3, 'µs'] : [1, 'ns'];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const px = Math.round(x(at)) + 0.5;
    g.beginPath();
    g.moveTo(px, HEAD - 6);
    g.lineTo(px, height);
    g.stroke();
    const decimals = Math.max(0, Math.ceil(Math.log10(unit[0] / step) - 1e-9));
    g.fillText(`${(at / unit[0]).toFixed(decimals)} ${unit[1]}`, px + 3, 13);
  }
}

/** Idle states, deeper darker; of many in a pixel the last. */
function sleeps(g: CanvasRenderingContext2D, t: Timeline, row: Row, from: number, to: number, x: (at: number) => number, width: number, colour: string) {
  const lane = t.lanes[row.cpu], deepest = Math.max(1, t.states[row.cpu].length - 1);
  const low = Math.max(0, upper(lane.idleStart, from) - 1), high = upper(lane.idleStart, to);
  const every = Math.max(1, Math.floor((high - low) / (3 * width)));
  g.fillStyle = colour;
  let drawn = -1;
  for (let i = low; i < high; i += every) {
    const a = Math.max(x(lane.idleStart[i]), drawn), b = x(lane.idleEnd[Math.min(i + every - 1, high - 1)]);
    if (b - drawn < 0.3) continue;
    g.globalAlpha = 0.2 + 0.8 * (lane.idleState[i] / deepest);
    g.fillRect(a, row.y + LANE, Math.max(0.5, b - a), IDLE);
    drawn = b;
  }
  g.globalAlpha = 1;
}

/** Frequency as steps; of many in a pixel the highest. */
function clock(g: CanvasRenderingContext2D, t: Timeline, row: Row, from: number, to: number, x: (at: number) => number, width: number, colour: string) {
  const clock = t.clocks[t.domainOf[row.cpu]];
  if (!clock?.at.length) return;
  let top = 1;
  for (let i = 0; i < clock.khz.length; i++) top = Math.max(top, clock.khz[i]);
  const low = Math.max(0, upper(clock.at, from) - 1), high = upper(clock.at, to);
  const every = Math.max(1, Math.floor((high - low) / (3 * width)));
  g.fillStyle = colour;
  for (let i = low; i < high; i += every) {
    const a = x(clock.at[i]), b = x(clock.at[Math.min(i + every, clock.at.length)] ?? t.endNs);
    let khz = clock.khz[i];
    for (let k = i + 1; k < Math.min(i + every, high); k++) khz = Math.max(khz, clock.khz[k]);
    const tall = Math.max(1, FREQ * (khz / top));
    g.fillRect(a, row.y + LANE + IDLE + FREQ - tall, Math.max(0.5, b - a), tall);
  }
}

/** Signals of the CPU as it switched threads, and the frequency that was asked for on it. */
function tracks(g: CanvasRenderingContext2D, t: Timeline, row: Row, from: number, to: number, x: (at: number) => number, width: number, style: { text: string }) {
  const lane = t.lanes[row.cpu], top = row.y + LANE + IDLE + FREQ + 3, tall = SIGNALS - 5;
  const line = (times: Float64Array, values: Float64Array, full: number, colour: string, dash: number[]) => {
    const low = Math.max(0, upper(times, from) - 1), high = Math.min(times.length, upper(times, to) + 1);
    const every = Math.max(1, Math.floor((high - low) / (2 * width)));
    g.strokeStyle = colour;
    g.setLineDash(dash);
    g.beginPath();
    let y = top + tall;
    for (let i = low; i < high; i += every) {
      if (i === low) g.moveTo(x(times[i]), y);
      else g.lineTo(x(times[i]), y);
      y = top + tall - (tall * Math.min(full, values[i])) / full;
      g.lineTo(x(times[i]), y);
    }
    g.lineTo(x(Math.min(to, t.endNs)), y);
    g.stroke();
    g.setLineDash([]);
  };
  line(lane.askedAt, lane.askedKhz, t.topKhz, style.text, [2, 2]);
  line(lane.sigAt, lane.utilEst, 1024, '#cc79a7', []);
  line(lane.sigAt, lane.runnableAvg, 1024, '#d55e00', []);
  line(lane.sigAt, lane.utilAvg, 1024, '#009e73', []);
}
