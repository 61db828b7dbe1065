// The page: the report that is in it, its timelines, and the simulator to run it again.
import { render } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { canUnpack, packed, report as embedded, type Report, type Spec, type Timeline } from './data';
import { Downloads } from './downloads';
import { Engine } from './engine';
import { name } from './format';
import { Lab } from './lab';
import { Answer, Compared, Energy, Frames, Frequency, Idle, Latency, Published, Replayed, Reproduce, Swept } from './sections';
import { TimelineSection, type Run } from './timeline';
import './style.css';

interface State { report: Report; specs: Spec[]; timelines: Timeline[] }

function App({ first, packedLater }: { first: Report; packedLater: Promise<{ specs: Spec[]; timelines: Timeline[] } | null> }) {
  const [state, setState] = useState<State>({ report: first, specs: [], timelines: [] });
  const [loaded, setLoaded] = useState<'no' | 'yes' | 'failed'>('no');
  const [theme, setTheme] = useState('auto');
  const engine = useMemo(() => Engine.make(), []);
  useEffect(() => {
    packedLater.then((p) => { if (p) setState((s) => ({ ...s, ...p })); setLoaded(p ? 'yes' : 'failed'); }, () => setLoaded('failed'));
  }, []);
  useEffect(() => {
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  useEffect(() => { document.title = `${name(state.report.title)} · wattif`; }, [state.report]);
  const dark = theme === 'dark' || (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
  const { report, specs, timelines } = state;
  const runs = useMemo((): Run[] => specs.map((spec, i) => ({ name: report.sides[i]?.name ?? spec.kernel, spec, digest: report.sides[i]?.run.digest ?? null, timeline: timelines[i] ?? null })), [timelines, report]);
  const side = report.sides[0];
  const links: [string, string, boolean][] = [
    ['answer', 'Answer', true], ['comparison', report.comparison ? 'Comparison' : 'Figures', report.sides.length > 0 || !!report.comparison], ['latency', 'Latency', report.sides.length > 0],
    ['frames', 'Frames', report.sides.length > 0], ['energy', 'Energy', report.sides.length > 0], ['frequency', 'Frequency', report.sides.length > 0], ['idle', 'Idle', report.sides.length > 0],
    ['published', 'Published', !!report.repro], ['replay', 'Recording', !!report.replay], ['sweep', 'Sweep', !!report.sweep],
    ['reproduce', 'Reproduce', true], ['timeline', 'Timeline', timelines.length > 0], ['lab', 'Lab', true],
  ];
  const plotTheme = `${theme}-${dark}`;
  return (
    <>
      <a class="skip" href="#answer">Skip to the answer</a>
      <header>
        <div class="top"><span class="brand">wattif</span>
          <nav aria-label="Sections">{links.filter((l) => l[2]).map(([id, text]) => <a href={`#${id}`}>{text}</a>)}</nav>
          <button type="button" id="theme" onClick={() => setTheme(dark ? 'light' : 'dark')}>{dark ? 'Light' : 'Dark'}</button>
        </div>
        <h1><bdi>{name(report.title)}</bdi></h1>
        {side ? <p class="facts">{[side.run.spec.workload, `on ${side.run.spec.platform}`, `${side.run.spec.duration_s} s`, `seed ${side.run.spec.seed}`].map((f) => <span><bdi>{name(f)}</bdi></span>)}</p> : null}
        {!canUnpack() ? <p class="note" role="status">This browser has no DecompressionStream, so the timeline and the lab are not available; all tables are. A browser of 2023 or later shows everything.</p>
          : typeof WebAssembly !== 'object' ? <p class="note" role="status">This browser runs no WebAssembly, so the lab is not available; everything else is.</p>
            : loaded === 'failed' && report.kind !== 'lab' ? <p class="note" role="status">The packed part of this file cannot be read; all tables are still there.</p> : null}
      </header>
      <main>
        <Answer report={report} />
        <Compared report={report} />
        {report.sides.length ? <>
          <Latency report={report} theme={plotTheme} />
          <Frames report={report} theme={plotTheme} />
          <Energy report={report} />
          <Frequency report={report} />
          <Idle report={report} />
        </> : null}
        <Published report={report} />
        <Replayed report={report} />
        <Swept report={report} theme={plotTheme} />
        <Reproduce report={report} />
        <TimelineSection runs={runs} first={report.first} engine={engine} theme={plotTheme} />
        {runs.length ? <Downloads sides={runs} engine={engine} /> : null}
        {loaded !== 'no' ? <Lab report={first} specs={specsOf(state, first)} engine={engine} onRun={setState} /> : <p class="hint">unpacking …</p>}
      </main>
    </>
  );
}

const specsOf = (state: State, first: Report) => (state.report === first ? state.specs : []);

function start() {
  const root = document.getElementById('app')!;
  const first = embedded();
  if (!first) {
    root.textContent = 'This page holds no report: it is the empty form that wattif fills.';
    return;
  }
  window.addEventListener('beforeprint', () => document.querySelectorAll('details').forEach((d) => { d.open = true; }));
  render(<App first={first} packedLater={packed()} />, root);
}

start();
