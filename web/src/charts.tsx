// Drawings, each with the table of its data behind it.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { colour, name, num } from './format';

export type Cell = string | number | null | undefined;

/** A figure of full precision behind its rounded text. */
export const Num = ({ value, digits }: { value: number | null | undefined; digits?: number }) =>
  value === null || value === undefined || Number.isNaN(value) ? <>–</> : <data value={String(value)}>{num(value, digits)}</data>;

/** A name from outside, apart from the text around it. */
export const Name = ({ text }: { text: string }) => <bdi>{name(text)}</bdi>;

export function Table({ caption, head, rows }: { caption: string; head: string[]; rows: (Cell | ComponentChildren)[][] }) {
  const cell = (c: Cell | ComponentChildren) =>
    typeof c === 'number' ? <Num value={c} /> : typeof c === 'string' ? <Name text={c} /> : c ?? '–';
  const isNumber = (column: number) => rows.length > 0 && rows.every((r) => typeof r[column] === 'number' || r[column] == null);
  const numeric = head.map((_, i) => isNumber(i));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead><tr>{head.map((h, i) => <th scope="col" class={numeric[i] ? 'n' : ''}>{h}</th>)}</tr></thead>
        <tbody>
          {rows.map((r) => (
            <tr>{r.map((c, i) => i === 0 ? <th scope="row">{cell(c)}</th> : <td class={numeric[i] ? 'n' : ''}>{cell(c)}</td>)}</tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A drawing with the table behind it. */
export function Figure({ title, children, table }: { title: string; children: ComponentChildren; table: ComponentChildren }) {
  return (
    <figure>
      <figcaption>{title}</figcaption>
      {children}
      <details class="behind"><summary>Data of “{title}” as a table</summary>{table}</details>
    </figure>
  );
}

export const Legend = ({ entries }: { entries: [string, string, string?][] }) => (
  <ul class="legend">
    {entries.map(([text, colour, kind]) => <li><span class={`key ${kind ?? ''}`} style={{ background: colour }} /><Name text={text} /></li>)}
  </ul>
);

const css = (property: string) => getComputedStyle(document.documentElement).getPropertyValue(property).trim();

export interface Line { label: string; points: [number, number][]; step?: boolean; dots?: boolean; dash?: boolean; colour?: string }

/** Shares as heights: each decade of the tail as high as the one before, so that p50, p90, p99 and p99.9 are told apart. */
const MARKS = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];
const tail = (share: number) => -Math.log10(Math.max(0, 1 - share));

/** No two points of a line at the same place: of those only one would be drawn. */
function apart(points: [number, number][]): [number, number][] {
  let last = -Infinity;
  return points.map(([x, y]) => {
    last = x > last ? x : last + Math.max(1e-12, Math.abs(last) * 1e-12);
    return [last, y];
  });
}

/** As many digits as tell ticks apart; on a logarithmic axis they are powers, and some of them blank. */
function labels(ticks: (number | null)[]): string[] {
  const some = ticks.filter((t): t is number => t !== null);
  const gap = Math.min(...some.slice(1).map((t, i) => t - some[i]));
  const most = Math.max(...some.map(Math.abs));
  const even = some.length === ticks.length && gap > 0 && most > 0;
  const digits = even ? Math.min(12, Math.max(1, Math.floor(Math.log10(most)) - Math.floor(Math.log10(gap) + 1e-9) + 1)) : 3;
  return ticks.map((t) => (t === null ? '' : String(Number(num(t, digits)))));
}

/** Lines or dots over a number, with a cursor that reads them off; `shares` on an axis of percentiles. */
export function Plot({ label, lines, x, y, logX, shares, theme, height = 320 }:
  { label: string; lines: Line[]; x: string; y: string; logX?: boolean; shares?: boolean; theme: string; height?: number }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = box.current!;
    const some = lines.map((l) => ({ ...l, points: apart(l.points.filter((p) => !logX || p[0] > 0)) })).filter((l) => l.points.length);
    if (!some.length) return;
    const reach = Math.max(...some.flatMap((l) => l.points.map((p) => tail(p[1]))).filter(Number.isFinite));
    const top = Math.min(6, Math.max(3.3, reach + 0.3));
    const shown = shares ? some.map((l) => ({ ...l, points: l.points.map(([a, b]): [number, number] => [a, Math.min(top, tail(b))]) })) : some;
    const share = (height: number) => `${num(height >= top ? 100 : 100 * (1 - 10 ** -height), 6)} %`;
    const percentiles = MARKS.filter((m) => tail(m) < top);
    const data = uPlot.join(shown.map((l) => [l.points.map((p) => p[0]), l.points.map((p) => p[1])])) as uPlot.AlignedData;
    const axis = (text: string): uPlot.Axis => ({
      label: text, labelFont: '13px system-ui', font: '12px system-ui', stroke: css('--text'), labelSize: 22,
      grid: { stroke: css('--grid'), width: 1 }, ticks: { stroke: css('--grid'), width: 1 },
      values: (_u, ticks) => labels(ticks),
    });
    const series = shown.map((l, i): uPlot.Series => ({
      label: name(l.label), stroke: l.colour ?? colour(i), width: 2, spanGaps: true, dash: l.dash ? [6, 4] : undefined,
      paths: l.dots ? () => null : l.step ? uPlot.paths.stepped!({ align: 1 }) : undefined,
      points: { show: l.dots ? true : false, size: l.points.length > 100 ? 4 : 9, fill: l.colour ?? colour(i) },
      value: (_u, v) => (v === null || v === undefined ? '–' : shares ? share(v) : num(v)),
    }));
    const upwards: uPlot.Axis = shares
      ? { ...axis(y), size: 70, splits: () => percentiles.map(tail), values: () => percentiles.map((m) => `p${Number((100 * m).toFixed(6))}`) }
      : { ...axis(y), size: 62 };
    const plot = new uPlot({
      width: element.clientWidth || 800, height,
      scales: { x: { time: false, distr: logX ? 3 : 1 }, ...(shares ? { y: { range: [0, top] as [number, number] } } : {}) },
      axes: [axis(x), upwards],
      series: [{ label: x, value: (_u, v) => (v === null ? '–' : num(v)) }, ...series],
      cursor: { drag: { x: true, y: false } },
      legend: { live: true },
    }, data, element);
    const observer = new ResizeObserver(() => element.clientWidth && plot.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => { observer.disconnect(); plot.destroy(); };
  }, [lines, theme, logX, shares]);
  return <div class="plot" ref={box} role="img" aria-label={label} />;
}

export interface Layer { label: string; value: number; colour: string; opacity?: number; hatched?: boolean }

/** Bars of layers on one axis from 0. A mark may stand beside them. */
export function Stacked({ label, bars, unit, max }:
  { label: string; bars: { label: string; layers: Layer[]; mark?: number | null }[]; unit: string; max?: number }) {
  const width = 860, right = 16, step = 30;
  const left = Math.min(360, Math.max(110, 24 + 6.6 * Math.max(0, ...bars.map((b) => name(b.label).length))));
  const total = (b: { layers: Layer[]; mark?: number | null }) => Math.max(b.layers.reduce((a, l) => a + l.value, 0), b.mark ?? 0);
  const most = max ?? Math.max(1e-12, ...bars.map(total));
  const at = (v: number) => left + (v / most) * (width - left - right);
  const bottom = bars.length * step + 8;
  const ticks = nice(most);
  return (
    <svg viewBox={`0 0 ${width} ${bottom + 40}`} role="img" aria-label={label} class="chart">
      <defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="2.5" height="6" fill="var(--card)" fill-opacity=".55" /></pattern></defs>
      {ticks.map((t) => <g><line class="grid" x1={at(t)} x2={at(t)} y1={4} y2={bottom} /><text x={at(t)} y={bottom + 16} text-anchor="middle">{num(t, 3)}</text></g>)}
      <text x={(left + width - right) / 2} y={bottom + 34} text-anchor="middle">{unit}</text>
      {bars.map((b, i) => {
        let from = 0;
        const y = i * step + 8;
        return (
          <g>
            <text x={left - 8} y={y + 15} text-anchor="end">{short(name(b.label), 52)}</text>
            {b.layers.map((l) => {
              const x = at(from);
              from += l.value;
              const w = at(from) - x;
              const title = <title>{`${name(b.label)}, ${name(l.label)}: ${num(l.value)} ${unit}`}</title>;
              if (w < 0.05) return null;
              return <g><rect x={x} y={y} width={w} height={20} fill={l.colour} fill-opacity={l.opacity ?? 1}>{title}</rect>
                {l.hatched ? <rect x={x} y={y} width={w} height={20} fill="url(#hatch)">{title}</rect> : null}</g>;
            })}
            {b.mark !== null && b.mark !== undefined ? <path class="mark" d={`M${at(b.mark)} ${y - 3}l5 5-5 5-5-5z`}><title>{`oracle: ${num(b.mark)}`}</title></path> : null}
          </g>
        );
      })}
    </svg>
  );
}

/** What is too long loses its middle: the end says of which kernel it is. */
const short = (text: string, most: number) => (text.length > most ? `${text.slice(0, most / 2 - 1)}…${text.slice(-most / 2)}` : text);

/** Round numbers from 0 to `most`. */
export function nice(most: number): number[] {
  const power = 10 ** Math.floor(Math.log10(most / 5));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => most / s <= 6) ?? power * 10;
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}

/** A dot with its interval on an axis of ratios around 1; every row has the same axis. */
export function Whisker({ value, ci, range, good, label }:
  { value: number | null; ci: [number, number] | null; range: [number, number]; good: 'good' | 'bad' | 'none'; label: string }) {
  const width = 240;
  const at = (v: number) => 8 + ((Math.log(v) - Math.log(range[0])) / (Math.log(range[1]) - Math.log(range[0]))) * (width - 16);
  if (value === null || value <= 0) return <span>–</span>;
  // What is beyond the axis is at its end.
  const within = (v: number) => Math.min(width - 5, Math.max(5, at(v)));
  const ends = ci && ci[0] > 0 ? ci.map(within) : null;
  return (
    <svg class={`whisker ${good}`} viewBox={`0 0 ${width} 20`} width={width} height="20" role="img" aria-label={label}>
      <line class="one" x1={at(1)} x2={at(1)} y1="0" y2="20" />
      {ends ? <line class="ci" x1={ends[0]} x2={ends[1]} y1="10" y2="10" /> : null}
      {good === 'bad' ? <rect x={within(value) - 4.5} y="5.5" width="9" height="9" /> : <circle cx={within(value)} cy="10" r="5" />}
      <title>{label}</title>
    </svg>
  );
}
