// The lab: other kernels, tunables, seeds, workloads, run in this page; every figure is then that of the new run.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Name } from './charts';
import type { Comparison, First, Report, Spec, Timeline } from './data';
import { name, num } from './format';
import { Refused, type Engine } from './engine';
import { Absent, Section } from './sections';

export interface Ran { report: Report; specs: Spec[]; timelines: Timeline[] }

const SAME = '';

export function Lab({ report, specs, engine, onRun }: { report: Report; specs: Spec[]; engine: Engine | null; onRun: (ran: Ran) => void }) {
  return (
    <Section id="lab" title="The lab">
      {engine ? <Form report={report} specs={specs} engine={engine} onRun={onRun} />
        : <Absent>The simulator is not in this page, or this browser lacks WebAssembly or DecompressionStream; all tables above are as they were computed. `wattif run` and `wattif compare` do the same on the command line.</Absent>}
    </Section>
  );
}

interface Finding { file: string; line: number; column: number; from: number; to: number; severity: string; message: string; help: string | null }

function Form({ report, specs, engine, onRun }: { report: Report; specs: Spec[]; engine: Engine; onRun: (ran: Ran) => void }) {
  // What the file came with; later runs do not change it.
  const origin = useRef({ report, specs });
  const { inputs } = origin.current.report;
  const sides = origin.current.report.sides.filter((s) => s.run.digest !== null);
  const base = origin.current.specs.filter((s) => s.text !== null);
  const [lists, setLists] = useState<any>(null);
  const [platform, setPlatform] = useState(base.length ? SAME : inputs.platform || 'hikey960');
  const [kernels, setKernels] = useState<[string, string]>(base.length ? ['of:0', base.length > 1 ? 'of:1' : 'none'] : [inputs.kernels[0] || 'linux-6.12', inputs.kernels[1] || 'none']);
  const [workload, setWorkload] = useState(base.length ? SAME : inputs.workload || 'server');
  const [text, setText] = useState(inputs.workload_text ?? '');
  const [settings, setSettings] = useState('');
  const [seed, setSeed] = useState(inputs.seed || '1');
  const [seeds, setSeeds] = useState(Math.max(1, Math.min(inputs.seeds || 5, 5)));
  const [duration, setDuration] = useState(inputs.duration_s || 1);
  const [findings, setFindings] = useState<Finding[]>([]);
  const [error, setError] = useState('');
  const [status, setStatus] = useState('');
  const [progress, setProgress] = useState<number | null>(null);
  const [tunable, setTunable] = useState('');
  const editor = useRef<HTMLTextAreaElement>(null);
  useEffect(() => { engine.ask({ do: 'list' }).then(setLists, (e) => setError(String(e.message))); }, [engine]);
  const tunables = useMemo(() => (lists ? lists.policies.flatMap((p: any) => p.tunables.map((t: any) => ({ ...t, path: `${p.name}.${t.name}` }))) : []), [lists]);
  const chosen = tunables.find((t: any) => t.path === tunable);
  const pair = kernels[1] !== 'none';

  const wanted = () => {
    const kernel = (choice: string) => (choice.startsWith('of:') ? { of: base[Number(choice.slice(3))].text } : { name: choice });
    const set = settings.split('\n').map((s) => s.trim()).filter(Boolean);
    const edited = workload === 'text' || (workload === SAME && inputs.workload_text !== null && text !== inputs.workload_text);
    return {
      do: 'load', platform: platform === SAME ? { of: base[0].text } : { name: platform },
      kernels: kernels.filter((k) => k !== 'none').map(kernel),
      workload: edited ? { text } : workload === SAME ? { of: base[0].text } : { name: workload },
      set, seed, duration_s: duration, dialect: inputs.dialect,
    };
  };
  const refused = (e: unknown) => {
    setFindings(e instanceof Refused ? e.findings : []);
    setError(String((e as Error).message ?? e));
  };
  // Look at what is written while it is written.
  const check = useRef(0);
  useEffect(() => {
    clearTimeout(check.current);
    if (progress !== null) return;
    check.current = window.setTimeout(() => {
      engine.ask(wanted()).then((ok) => { setFindings(ok.findings); setError(''); }, refused);
    }, 400);
    return () => clearTimeout(check.current);
  }, [platform, kernels, workload, text, settings, seed, duration]);

  const choose = (choice: string) => {
    setWorkload(choice);
    const file = lists?.workloads.find((w: any) => w.name === choice);
    if (file?.text) { setText(file.text); setWorkload('text'); }
  };
  const run = async () => {
    clearTimeout(check.current);
    setError('');
    setProgress(0);
    setStatus('reading the inputs');
    try {
      const loaded = await engine.ask(wanted());
      setFindings(loaded.findings);
      const ran = await simulate(engine, loaded.specs, seeds, inputs, (what, share) => { setStatus(what); setProgress(share); });
      const before = ran.report.sides.map((s) => sides.find((old) => old.run.spec.hash === s.run.spec.hash));
      const same = before.every((old) => old);
      const equal = ran.report.sides.every((s, i) => s.run.digest === before[i]?.run.digest);
      setStatus(same ? (equal ? 'Done. The same specs, and the same digests as in the report.' : 'Done. The same specs, but OTHER digests: the report was written by another version of wattif.') : 'Done. Every figure of this page is now that of the new runs.');
      onRun(ran);
    } catch (e) {
      setStatus((e as Error).message === 'cancelled' ? 'Cancelled.' : '');
      if ((e as Error).message !== 'cancelled') refused(e);
    }
    setProgress(null);
  };
  const jump = (f: Finding) => {
    const element = editor.current!;
    element.focus();
    element.setSelectionRange(f.from, Math.max(f.to, f.from + 1));
    element.scrollTop = (f.line - 4) * 18;
  };
  const kernelChoice = (i: 0 | 1) => (
    <label>kernel {'AB'[i]}
      <select id={`lab-kernel-${'ab'[i]}`} value={kernels[i]} onChange={(e) => setKernels(i ? [kernels[0], e.currentTarget.value] : [e.currentTarget.value, kernels[1]])}>
        {i ? <option value="none">none: one run</option> : null}
        {base.map((b, j) => <option value={`of:${j}`}>as in the report: {name(b.kernel)}</option>)}
        {lists?.kernels.map((k: any) => <option value={k.name}>{k.name}</option>)}
      </select></label>
  );
  return (
    <form class="lab" onSubmit={(e) => { e.preventDefault(); run(); }}>
      <p>Change what you like and run it here; nothing leaves this page. Every figure above is then computed anew.</p>
      <div class="fields">
        <label>platform<select id="lab-platform" value={platform} onChange={(e) => setPlatform(e.currentTarget.value)}>
          {base.length ? <option value={SAME}>as in the report: {name(base[0].platform)}</option> : null}
          {lists?.platforms.map((p: any) => <option value={p.name}>{p.name}</option>)}</select></label>
        {kernelChoice(0)}{kernelChoice(1)}
        <label>workload<select id="lab-workload" value={workload} onChange={(e) => choose(e.currentTarget.value)}>
          {base.length ? <option value={SAME}>as in the report: {name(base[0].workload)}</option> : null}
          <option value="text">the rt-app JSON below</option>
          {lists?.workloads.map((w: any) => <option value={w.name}>{w.name}</option>)}</select></label>
        <label>seed<input id="lab-seed" inputMode="numeric" value={seed} onInput={(e) => setSeed(e.currentTarget.value)} /></label>
        {pair ? <label>seeds to compare<input id="lab-seeds" type="number" min="1" max="100" value={seeds} onInput={(e) => setSeeds(Number(e.currentTarget.value))} /></label> : null}
        <label>length, s<input id="lab-duration" type="number" min="0.001" max="3600" step="any" value={duration} onInput={(e) => setDuration(Number(e.currentTarget.value))} /></label>
      </div>
      <div class="editors">
        <div>
          <label for="lab-set">settings, one a line, such as <code>schedutil.rate_limit_us=500</code> or <code>cpuidle=teo</code></label>
          <textarea id="lab-set" rows={4} spellcheck={false} value={settings} onInput={(e) => setSettings(e.currentTarget.value)} />
          <label>tunable<select id="lab-tunable" value={tunable} onChange={(e) => setTunable(e.currentTarget.value)}><option value="">choose one …</option>
            {tunables.map((t: any) => <option value={t.path}>{t.path}</option>)}</select></label>
          {chosen ? <p class="hint">{chosen.doc} Default {chosen.default}; {chosen.allowed.join(', ')}.{' '}
            <button type="button" onClick={() => setSettings(`${settings}${settings && !settings.endsWith('\n') ? '\n' : ''}${chosen.path}=${chosen.default}`)}>Add it</button></p> : null}
        </div>
        <div>
          <label for="lab-text">rt-app JSON</label>
          <Editor refer={editor} text={text} findings={findings.filter((f) => f.file === 'workload.json')} onText={(t) => { setText(t); if (workload !== SAME || inputs.workload_text === null) setWorkload('text'); }} />
        </div>
      </div>
      {error ? <p class="note error" role="alert">{name(error)}</p> : null}
      {findings.length ? <ul class="findings" aria-label="Diagnostics">{findings.slice(0, 20).map((f) => (
        <li class={f.severity}><button type="button" onClick={() => jump(f)}>{f.severity} {f.line}:{f.column}</button> <Name text={f.message} />{f.help ? <> <i><Name text={f.help} /></i></> : null}</li>))}</ul> : null}
      <p class="run">
        <button type="submit" class="primary" id="lab-run" disabled={progress !== null}>Run</button>
        <button type="button" id="lab-cancel" disabled={progress === null} onClick={() => engine.cancel()}>Cancel</button>
        {progress !== null ? <progress max={1} value={progress} aria-label="Progress" /> : null}
        <span role="status" id="lab-status">{status}</span>
      </p>
    </form>
  );
}

/** A text area whose mistakes are marked where they are. */
function Editor({ refer, text, findings, onText }: { refer: any; text: string; findings: Finding[]; onText: (text: string) => void }) {
  const back = useRef<HTMLPreElement>(null);
  const marks = [...findings].filter((f) => f.to > f.from).sort((a, b) => a.from - b.from);
  const parts: any[] = [];
  let at = 0;
  for (const f of marks) {
    if (f.from < at) continue;
    parts.push(text.slice(at, f.from), <mark class={f.severity}>{text.slice(f.from, f.to)}</mark>);
    at = f.to;
  }
  parts.push(text.slice(at), '\n');
  const follow = (e: Event) => {
    back.current!.scrollTop = (e.currentTarget as HTMLElement).scrollTop;
    back.current!.scrollLeft = (e.currentTarget as HTMLElement).scrollLeft;
  };
  return (
    <div class="editor">
      <pre ref={back} aria-hidden="true">{parts}</pre>
      <textarea id="lab-text" ref={refer} rows={16} spellcheck={false} wrap="off" value={text} onInput={(e) => onText(e.currentTarget.value)} onScroll={follow}
        aria-invalid={findings.some((f) => f.severity === 'error')} placeholder="the workload has no text: it is a model, or was made of a trace" />
    </div>
  );
}

/** A run of each kernel, and where there are two, the comparison and the explanation. */
export async function simulate(engine: Engine, specs: Spec[], seeds: number, inputs: Report['inputs'], told: (what: string, share: number) => void): Promise<Ran> {
  const ran = [];
  const texts = specs.map((s) => s.text);
  for (const [i, spec] of specs.entries()) {
    const what = `simulating ${name(spec.kernel)}`;
    ran.push(await engine.run(spec.text!, (share) => told(what, (i + share) / (2 * specs.length))));
  }
  let comparison: Comparison | null = null, first: First | null = null, answer = ran[0].sentences;
  if (specs.length > 1) {
    const compared = await engine.ask({ do: 'compare', specs: texts, seeds }, (share) => told(`comparing on ${seeds} seeds`, 0.5 + share * 0.4));
    told('explaining', 0.95);
    const explained = await engine.ask({ do: 'explain', specs: texts });
    [comparison, first, answer] = [compared.comparison, explained.first, [...compared.answer, ...explained.summary]];
  }
  const [a] = specs;
  const kernels = specs.map((s) => name(s.kernel));
  const question = `What does ${name(a.workload)} do on ${name(a.platform)} under ${kernels.join(' and ')}, for ${num(a.duration_s)} s?`;
  return {
    report: {
      schema: 'wattif.report/1', version: ran[0].side.run.version, kind: specs.length > 1 ? 'compare' : 'run', title: `${name(a.workload)}: ${kernels.join(' and ')}`, question, answer,
      command: null, inputs, sides: ran.map((r) => r.side), comparison, first, repro: null, replay: null, sweep: null, sweep_across: [], notes: ['These figures were computed in this page.'], trust: a.trust,
    },
    specs, timelines: ran.map((r) => r.timeline),
  };
}
