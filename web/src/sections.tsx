// What the page says, in reading order. Every section says so when it has nothing to show.
import type { ComponentChildren } from 'preact';
import { useMemo } from 'preact/hooks';
import { Figure, Legend, Name, Num, Plot, Stacked, Table, Whisker, type Layer, type Line } from './charts';
import type { Comparison, Report, Side } from './data';
import { colour, ghz, name, num } from './format';

export function Section({ id, title, children }: { id: string; title: string; children: ComponentChildren }) {
  return <section id={id} aria-labelledby={`${id}-title`}><h2 id={`${id}-title`}>{title}</h2>{children}</section>;
}

export const Absent = ({ children }: { children: ComponentChildren }) => <p class="absent">{children}</p>;

export function Answer({ report }: { report: Report }) {
  return (
    <Section id="answer" title="The question and the answer">
      <p class="question"><Name text={report.question} /></p>
      {report.answer.length
        ? <ul class="answer">{report.answer.map((s) => <li><Name text={s} /></li>)}</ul>
        : <Absent>There are no sentences about this; the figures are below.</Absent>}
      {report.notes.map((n) => <p class="note"><Name text={n} /></p>)}
    </Section>
  );
}

/** The range of all ratios, at least from 0.9 to 1.1, at most a thousandfold. */
function range(c: Comparison): [number, number] {
  const all = c.metrics.flatMap((m) => m.ratio_to_first.slice(1)).flatMap((r) => [r.value, ...(r.ci95 ?? [])]);
  const some = all.filter((v): v is number => v !== null && v > 0);
  return [Math.max(1e-3, Math.min(0.9, ...some)) * 0.95, Math.min(1e3, Math.max(1.1, ...some)) * 1.05];
}

const looks = { better: 'good', worse: 'bad', more: 'none', less: 'none' } as const;

const interval = (ci: [number, number] | null) => (ci ? <span class="ci">[<Num value={ci[0]} />, <Num value={ci[1]} />]</span> : null);

export function Compared({ report }: { report: Report }) {
  const c = report.comparison;
  if (!c) return <Metrics report={report} />;
  const axis = range(c);
  const others = c.kernels.slice(1);
  const pairs = c.metrics.flatMap((m) => m.ratio_to_first.slice(1));
  return (
    <Section id="comparison" title="The comparison">
      <p>Means over {c.seeds} {c.seeds === 1 ? 'seed' : 'paired seeds'} with 95 % intervals; ratios to <b><Name text={c.kernels[0]} /></b> on a logarithmic axis,
        the line is 1. Filled round: better; square: worse, where the corrected p is below 0.05; hollow: no such verdict{pairs.some((r) => r.verdict) ? '' : '; here there is none'}.</p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Comparison of all metrics">
        <table class="comparison">
          <caption>Every metric of every kernel</caption>
          <thead><tr><th scope="col">metric</th><th scope="col">unit</th>
            {c.kernels.map((k) => <th scope="col" class="n"><Name text={k} /></th>)}
            {others.map((k) => <><th scope="col" class="n"><Name text={k} /> ÷ <Name text={c.kernels[0]} /></th><th scope="col">{num(axis[0], 2)} … 1 … {num(axis[1], 2)}</th><th scope="col">judged</th><th scope="col" class="n">p (Holm)</th></>)}
          </tr></thead>
          <tbody>
            {c.metrics.map((m) => (
              <tr data-metric={m.name}>
                <th scope="row"><Name text={m.name} /></th><td>{m.unit}</td>
                {m.per_kernel.map((e) => <td class="n"><Num value={e.mean} /><br />{interval(e.ci95)}</td>)}
                {others.map((k, i) => {
                  const r = m.ratio_to_first[i + 1];
                  const good = r.verdict ? looks[r.verdict] : 'none', word = r.verdict ?? 'not sure';
                  const label = `${name(m.name)}, ${name(k)}: ratio ${num(r.value)}${r.ci95 ? `, interval ${num(r.ci95[0])} to ${num(r.ci95[1])}` : ''}, ${word}`;
                  return <><td class="n"><Num value={r.value} /><br />{interval(r.ci95)}</td>
                    <td><Whisker value={r.value} ci={r.ci95} range={axis} good={good} label={label} /></td><td>{r.p_holm === null ? '–' : word}</td>
                    <td class="n"><Num value={r.p_holm} digits={2} /></td></>;
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

/** Of runs without a comparison: the same rows, without intervals. */
function Metrics({ report }: { report: Report }) {
  if (!report.sides.length) return null;
  const rows: [string, string, (m: any) => number | null | undefined][] = [
    ['wakeup_latency_us.p50', 'µs', (m) => m.wakeup_latency_us.p50], ['wakeup_latency_us.p99', 'µs', (m) => m.wakeup_latency_us.p99],
    ['wakeup_latency_us.max', 'µs', (m) => m.wakeup_latency_us.max], ['wu_lat_us.mean', 'µs', (m) => (m.wu_lat_us.count ? m.wu_lat_us.mean : null)],
    ['energy.total', report.sides[0].figures.energy?.unit ?? '', (m) => m.energy?.total], ['power_mean', '', (m) => m.power_mean],
    ['idle_accuracy.correct_pct', '%', (m) => m.idle_accuracy?.correct_pct], ['migrations', '', (m) => m.migrations], ['slices', '', (m) => m.slices],
  ];
  return (
    <Section id="comparison" title="The figures of the run">
      <Table caption="Main figures" head={['metric', 'unit', ...report.sides.map((s) => s.name)]}
        rows={rows.map(([title, unit, of]) => [title, unit, ...report.sides.map((s) => <span data-metric={title}><Num value={of(s.run.metrics)} /></span>)])} />
      {report.sides.map((s) => (
        <details class="behind"><summary>Threads of <Name text={s.name} /></summary>
          <Table caption={`Threads under ${name(s.name)}`} head={['thread', 'policy', 'runtime, s', 'CPU share', 'wake-ups', 'migrations', 'wake-up latency mean, µs', 'p99, µs']}
            rows={s.run.tasks.slice(0, 200).map((t) => [t.name, t.policy, t.runtime_s, t.cpu_share, t.activations, t.migrations, t.wakeup_latency_us?.mean ?? null, t.wakeup_latency_us?.p99 ?? null])} />
          {s.run.tasks.length > 200 ? <p>200 of {s.run.tasks.length} threads; the JSON of the run has all.</p> : null}
        </details>))}
    </Section>
  );
}

/** Curves of one drawing: there are so many colours. */
const CURVES = 7;

export function Latency({ report, theme }: { report: Report; theme: string }) {
  const sides = report.sides;
  const lines = useMemo((): Line[] => sides.length === 1
    ? sides[0].figures.latency.slice(0, CURVES).map((c) => ({ label: c.task, points: c.points, step: true }))
    : sides.map((s) => ({ label: s.name, points: s.figures.latency_all, step: true })), [sides]);
  const left = sides.length === 1 ? sides[0].figures.latency.length - CURVES : 0;
  const keys = ['count', 'min', 'mean', 'p50', 'p90', 'p95', 'p99', 'p999', 'max'] as const;
  const rows = sides.flatMap((s) => [
    [`${s.name}: waking to running`, ...keys.map((k) => s.run.metrics.wakeup_latency_us[k])],
    ...(s.run.metrics.wu_lat_us.count ? [[`${s.name}: as rt-app logs it`, ...keys.map((k) => s.run.metrics.wu_lat_us[k])]] : []),
  ]);
  return (
    <Section id="latency" title="Wake-up latency">
      {lines.some((l) => l.points.length) ? <>
        <Figure title="Share of wake-ups not above a latency" table={<>
          {lines.map((l) => <Table caption={`Cumulative distribution of ${name(l.label)}`} head={['latency, µs', 'share not above']} rows={l.points.map((p) => [p[0], p[1]])} />)}</>}>
          <Plot label="Cumulative distribution of wake-up latency on a logarithmic axis, with marks at p50, p90, p99 and p99.9; the table below has its data" lines={lines} x="waking to running, µs" y="share of wake-ups" logX shares theme={theme} />
          {left > 0 ? <p class="hint">{CURVES} of {CURVES + left} tasks; the table of threads has all.</p> : null}
        </Figure>
        <Table caption="Percentiles, µs" head={['of', 'count', 'min', 'mean', 'p50', 'p90', 'p95', 'p99', 'p99.9', 'max']} rows={rows} />
      </> : <Absent>No thread of the workload was ever woken, so there is no wake-up latency.</Absent>}
    </Section>
  );
}

export function Frames({ report, theme }: { report: Report; theme: string }) {
  const all = useMemo(() => report.sides.flatMap((s) => s.figures.frames.map((f) => ({ side: s, frame: f }))), [report.sides]);
  const marks = [...new Set(all.map((a) => a.frame.mark))];
  const lines = useMemo(() => new Map(marks.map((mark) => {
    const of = all.filter((a) => a.frame.mark === mark);
    const dots = of.map((a, i): Line => ({ label: a.side.name, points: a.frame.points, dots: true, colour: colour(i) }));
    const deadline = of.find((a) => a.frame.deadline_ms !== null)?.frame.deadline_ms;
    const end = Math.max(0.001, ...of.flatMap((a) => a.frame.points.map((p) => p[0])));
    const line: Line[] = deadline ? [{ label: `deadline of ${num(deadline)} ms`, points: [[0, deadline], [end, deadline]], dash: true, colour: '#7f7f7f' }] : [];
    return [mark, [...dots, ...line]];
  })), [all]);
  return (
    <Section id="frames" title="Frames, requests, stages">
      {marks.length === 0 ? <Absent>The workload marks no frames, requests or stages, so there is nothing to time.</Absent> : null}
      {marks.map((mark) => {
        const of = all.filter((a) => a.frame.mark === mark);
        const m = (s: Side) => s.run.metrics.frames[mark];
        return <>
          <Figure title={`${name(mark)}: how long each took`} table={<>{of.map((a) =>
            <Table caption={`${name(mark)} under ${name(a.side.name)}${a.frame.points.length < a.frame.count ? `: ${a.frame.points.length} of ${a.frame.count}, among them the longest` : ''}`}
              head={['end, s', 'took, ms']} rows={a.frame.points.map((p) => [p[0], p[1]])} />)}</>}>
            <Plot label={`Time of each ${name(mark)}; the table below has its data`} lines={lines.get(mark)!} x="end, s" y="ms" theme={theme} height={260} />
          </Figure>
          <Table caption={`${name(mark)}, µs`} head={['kernel', 'count', 'mean', 'p50', 'p90', 'p99', 'max', 'janks, %', 'deadlines missed', 'per second']}
            rows={of.map(({ side }) => [side.name, m(side).duration_us.count, m(side).duration_us.mean, m(side).duration_us.p50, m(side).duration_us.p90, m(side).duration_us.p99, m(side).duration_us.max,
              m(side).pace?.jank_pct ?? null, m(side).pace?.missed ?? null, side.run.metrics.throughput[mark]?.per_s ?? null])} />
        </>;
      })}
    </Section>
  );
}

export function Energy({ report }: { report: Report }) {
  const sides = report.sides.filter((s) => s.figures.energy);
  if (!sides.length) {
    return <Section id="energy" title="Energy"><Absent>No energy: {report.sides.length ? 'nothing is known of the power of this platform, or the trace does not show it.' : 'no run is shown here.'}</Absent></Section>;
  }
  const unit = sides[0].figures.energy!.unit;
  const shown = unit === 'relative' ? 'relative units' : unit;
  const places = [...new Set(sides.flatMap((s) => s.figures.energy!.rows.filter((r) => r.energy > 0).map((r) => r.place)))];
  const bars = sides.map((s) => {
    const rows = [...s.figures.energy!.rows].sort((a, b) => places.indexOf(a.place) - places.indexOf(b.place) || a.depth - b.depth || a.khz - b.khz);
    const top = (place: string) => Math.max(1, ...rows.filter((r) => r.place === place).map((r) => r.khz));
    const layers = rows.map((r): Layer => ({
      label: `${r.place}${r.khz ? ` at ${ghz(r.khz)}` : ''} ${r.level}`, value: r.energy, colour: colour(places.indexOf(r.place)),
      opacity: r.depth ? 0.5 : 0.35 + 0.65 * (r.khz / top(r.place)), hatched: r.depth > 0,
    }));
    return { label: s.name, layers };
  });
  return (
    <Section id="energy" title="Energy">
      {unit === 'relative' ? <p>The powers of this platform are estimated: only ratios mean something.</p> : null}
      <Figure title="Energy by cluster, operating point and idle state" table={<>{sides.map((s) =>
        <Table caption={`Energy under ${name(s.name)}`} head={['place', 'frequency', 'level', shown, 'time, s']}
          rows={s.figures.energy!.rows.map((r) => [r.place, r.khz ? ghz(r.khz) : '', r.level, r.energy, r.seconds])} />)}</>}>
        <Stacked label="Stacked bars of energy; the table below has its data" bars={bars} unit={shown} />
        <Legend entries={[...places.map((p, i): [string, string] => [p, colour(i)]), ['stronger: higher frequency', 'var(--muted)'], ['hatched: idle', 'var(--muted)', 'hatched']]} />
      </Figure>
      <Table caption="Energy by place" head={['kernel', 'total', 'CPUs', 'clusters', 'rest of the system', 'mean power']}
        rows={sides.map((s) => { const e = s.run.metrics.energy; const sum = (l: number[]) => l.reduce((a, b) => a + b, 0); return [s.name, <span data-metric="energy.total"><Num value={e.total} /></span>, sum(e.cpus), sum(e.clusters), e.base, s.run.metrics.power_mean]; })} />
    </Section>
  );
}

export function Frequency({ report }: { report: Report }) {
  const rows = report.sides.flatMap((s) => s.run.domains.map((d, i) => ({ s, d, i })));
  if (!rows.length) return null;
  rows.sort((a, b) => a.i - b.i);
  const bars = rows.map(({ s, d, i }) => {
    const total = d.freq_residency.reduce((a, f) => a + f.s, 0) || 1;
    const top = Math.max(...d.freq_residency.map((f) => f.khz));
    return {
      label: `cpu${d.cpus} ${s.name}`,
      layers: d.freq_residency.map((f): Layer => ({ label: ghz(f.khz), value: (100 * f.s) / total, colour: colour(i), opacity: 0.12 + 0.88 * (f.khz / top) ** 2 })),
    };
  });
  return (
    <Section id="frequency" title="Frequency">
      <Figure title="Share of time at each frequency" table={<>{rows.map(({ s, d }) =>
        <Table caption={`cpu${d.cpus} under ${name(s.name)}: ${d.transitions} changes`} head={['frequency', 'time, s']} rows={d.freq_residency.map((f) => [ghz(f.khz), f.s])} />)}</>}>
        <Stacked label="Bars of the time at each frequency; the table below has its data" bars={bars} unit="% of time" max={100} />
        <p class="hint">Pale to strong: lowest to highest frequency of the domain.</p>
      </Figure>
    </Section>
  );
}

export function Idle({ report }: { report: Report }) {
  const sides = report.sides.filter((s) => s.figures.idle.length);
  if (!sides.length) return <Section id="idle" title="Idle states"><Absent>No CPU slept, or the trace does not show it.</Absent></Section>;
  const states = [...new Set(sides.flatMap((s) => s.figures.idle.map((i) => i.state)))].sort((a, b) => a - b);
  const kinds: [string, string][] = [['right', '#009e73'], ['too deep', '#d55e00'], ['too shallow', '#e69f00']];
  const bars = states.flatMap((state) => sides.flatMap((s) => s.figures.idle.filter((i) => i.state === state && (i.usage || i.oracle)).map((i) => ({
    label: `${i.name} · ${s.name}`, mark: i.oracle,
    layers: [i.correct, i.above, i.below].map((value, k) => ({ label: kinds[k][0], value, colour: kinds[k][1], hatched: k === 1 })),
  }))));
  return (
    <Section id="idle" title="Idle states">
      <Figure title="Sleeps by how well their state was chosen, and by state as an oracle would choose" table={<>{sides.map((s) =>
        <Table caption={`Idle states under ${name(s.name)}`} head={['state', 'sleeps', 'right', 'too deep', 'too shallow', 'oracle would choose it', 'residency, s']}
          rows={s.figures.idle.map((i) => [i.name, i.usage, i.correct, i.above, i.below, i.oracle, i.residency_s])} />)}</>}>
        <Stacked label="Bars of sleeps by idle state; the table below has its data" bars={bars} unit="sleeps" />
        <Legend entries={[...kinds.map(([t, c], k): [string, string, string?] => [t, c, k === 1 ? 'hatched' : '']), ['sleeps that an oracle would put in this state', 'var(--text)', 'diamond']]} />
      </Figure>
      <Table caption="All states together" head={['kernel', 'right, %', 'too deep, %', 'too shallow, %', 'idle energy beyond the oracle, %', 'late p99, µs']}
        rows={sides.map((s) => { const a = s.run.metrics.idle_accuracy, o = s.run.metrics.oracle; return [s.name, a?.correct_pct ?? null, a?.above_pct ?? null, a?.below_pct ?? null, o?.energy_excess_pct ?? null, o?.late_us?.p99 ?? null]; })} />
    </Section>
  );
}

export function Published({ report }: { report: Report }) {
  const results = report.repro?.results as any[] | undefined;
  if (!results) return null;
  const arms = results.flatMap((r) => r.arms.map((a: any) => ({ r, a }))).filter(({ a }) => a.published > 0 && a.simulated > 0);
  // Of a statement nothing is demanded; nor has one held that too few seeds could tell.
  const demand = results.filter((r) => r.tolerance !== 'none: a statement'), good = demand.filter((r) => r.ok && r.judged).length;
  return (
    <Section id="published" title="Published beside simulated">
      <p>{good} of {demand.length} rows hold.</p>
      <Table caption="Rows of the experiment" head={['row', 'metric', 'unit', 'arm', 'published', 'simulated', '95 % interval', 'ratio published', 'ratio simulated', 'holds', 'counter-test', 'tolerance']}
        rows={results.flatMap((r) => r.arms.map((a: any, i: number) => [`${r.id} (${r.platform})`, r.metric + (r.threads ? ` of ${r.threads}` : ''), r.unit, a.kernel, a.published, a.simulated, interval(a.ci95),
          i ? '' : r.ratio?.published ?? null, i ? '' : r.ratio?.simulated ?? null, i ? '' : !r.ok ? 'NO' : r.judged ? 'yes' : '–', i ? '' : r.counter_test ? (r.counter_test.ok ? 'holds' : 'FAILS') : '', i ? '' : r.tolerance]))} />
      {arms.length ? <Figure title="Simulated by published, for every arm" table={<Table caption="Simulated by published" head={['row', 'arm', 'simulated ÷ published']} rows={arms.map(({ r, a }) => [r.id, a.kernel, a.simulated / a.published])} />}>
        <ul class="ratios">{arms.slice(0, 60).map(({ r, a }) => <li><span><Name text={`${r.id} ${a.kernel}`} /></span><Whisker value={a.simulated / a.published} ci={a.ci95 ? [a.ci95[0] / a.published, a.ci95[1] / a.published] : null} range={[0.1, 10]} good="none" label={`${name(r.id)} ${name(a.kernel)}: simulated is ${num(a.simulated / a.published)} of published`} /></li>)}</ul>
        <p class="hint">Logarithmic from 0.1 to 10; the line is 1.</p>
      </Figure> : null}
    </Section>
  );
}

export function Replayed({ report }: { report: Report }) {
  const replay = report.replay;
  if (!replay) return null;
  const figures = replay.self_check?.figures as any[] | undefined;
  return (
    <Section id="replay" title="The recording">
      <p>{replay.recording.format}: {replay.recording.cpus} CPUs, {num(replay.recording.duration_s)} s.</p>
      {(replay.warnings ?? []).map((w: string) => <p class="note"><Name text={w} /></p>)}
      {figures ? <Table caption={`The recording beside its simulation under ${name(replay.self_check.kernel)}`} head={['figure', 'unit', 'recorded', 'simulated', '95 % interval', 'reproduced']}
        rows={figures.map((f) => [f.figure, f.unit, f.recorded, f.simulated, interval(f.ci95), f.ok ? 'yes' : 'differs'])} /> : null}
      {(replay.recording.missing ?? []).map((m: any) => <p class="hint"><Name text={`${m.derived ? 'derived' : 'missing'}: ${m.figures}: ${m.why}`} /></p>)}
      {replay.tasks ? <Table caption="Threads of the recording" head={['thread', 'runtime, s', 'wake-ups', 'wake-up latency mean, µs', 'p99, µs']}
        rows={replay.tasks.slice(0, 200).map((t: any) => [t.name, t.runtime_s, t.activations, t.wakeup_latency_us?.mean ?? null, t.wakeup_latency_us?.p99 ?? null])} /> : null}
    </Section>
  );
}

export function Swept({ report, theme }: { report: Report; theme: string }) {
  const sweep = report.sweep;
  const points = (sweep?.points ?? []) as any[];
  const metrics = points.length ? Object.keys(points[0].metrics) : [];
  const label = (p: any) => sweep.axes.map((a: string) => `${a}=${p.axes[a]}`).join(' ');
  const [across, up] = report.sweep_across;
  const lines = useMemo((): Line[] => {
    const of = (some: any[]) => some.filter((p) => p.metrics[across]?.mean != null && p.metrics[up]?.mean != null)
      .map((p): [number, number] => [p.metrics[across].mean, p.metrics[up].mean]).sort((a, b) => a[0] - b[0]);
    const first = sweep?.axes[0];
    const groups = [...new Set(points.map((p) => p.axes[first]))];
    // With more values than colours, all are of one.
    const dots = groups.length <= 7 ? groups.map((g): Line => ({ label: `${first}=${g}`, points: of(points.filter((p) => p.axes[first] === g)), dots: true }))
      : [{ label: 'points', points: of(points), dots: true }];
    return [...dots, { label: 'front', points: of(points.filter((p) => p.front)), dash: true, colour: '#7f7f7f' }];
  }, [sweep]);
  if (!sweep) return null;
  return (
    <Section id="sweep" title="The sweep">
      {up ? <Figure title={`${across} and ${up} of every point`} table={<p>The table of all points follows.</p>}>
        <Plot label={`${across} across, ${up} upwards; the table of all points follows`} lines={lines} x={across} y={up} theme={theme} />
      </Figure> : null}
      <Table caption={`${points.length} points × ${sweep.seeds.length} seeds`} head={['point', ...metrics.flatMap((m) => [m, '95 % interval']), 'front']}
        rows={points.map((p) => [label(p), ...metrics.flatMap((m) => [p.metrics[m].mean, interval(p.metrics[m].ci95)]), p.front ? 'front' : ''])} />
    </Section>
  );
}

export function Reproduce({ report }: { report: Report }) {
  const rows = report.sides.map((s) => [s.name, s.run.spec.platform, s.run.spec.workload, s.run.spec.seed, s.run.spec.duration_s, s.run.digest, s.run.spec.hash]);
  const all: string[] = report.comparison?.spec?.digests ?? [];
  return (
    <Section id="reproduce" title="How to reproduce it">
      {report.command ? <pre class="command" tabIndex={0}><code>{name(report.command)}</code></pre> : null}
      <p>wattif {report.version}. A run is decided by its spec alone: the same spec has the same digest on every machine, and in this page.</p>
      {rows.length ? <Table caption="Runs shown" head={['kernel', 'platform', 'workload', 'seed', 'length, s', 'digest', 'spec']}
        rows={rows.map((r) => r.map((c, i) => (i === 5 ? <code class="digest">{c ?? 'recorded'}</code> : i === 6 ? <code class="hash">{c}</code> : c)))} /> : null}
      {all.length ? <Table caption="All runs of each kernel" head={['kernel', 'digest of the digests']} rows={report.comparison!.kernels.map((k, i) => [k, <code>{all[i]}</code>])} /> : null}
      {report.trust.length ? <><h3>How far to trust it</h3><ul>{report.trust.map((t) => <li><Name text={t} /></li>)}</ul></> : null}
    </Section>
  );
}
