// The same runs as traces for other tools; the simulator writes them here. From a page that is served, also straight into
// Perfetto's own window.
import { useState } from 'preact/hooks';
import type { Engine } from './engine';
import { name } from './format';
import type { Spec } from './data';

/** A run that was made of a spec, and can be made again. */
interface Side { name: string; spec: Spec }

const PERFETTO = 'https://ui.perfetto.dev';

export function Downloads({ sides, engine }: { sides: Side[]; engine: Engine | null }) {
  const [status, setStatus] = useState('');
  if (!engine) return <p class="absent">Traces of these runs are written by `wattif run --trace`; the simulator is not available in this page.</p>;
  const trace = async (side: Side, format: 'pftrace' | 'dat') => {
    setStatus('running it again …');
    const { bytes } = await engine.askBytes({ do: 'trace', spec: side.spec.text, format }, (share) => setStatus(`running it again … ${Math.round(share * 100)} %`));
    setStatus('');
    return bytes;
  };
  const save = async (side: Side, format: 'pftrace' | 'dat') => {
    try {
      const bytes = await trace(side, format);
      const link = document.createElement('a');
      link.href = URL.createObjectURL(new Blob([bytes as BlobPart]));
      link.download = `${side.name.replace(/[^\w.-]+/g, '_')}.${format}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    } catch (e) {
      setStatus(String((e as Error).message));
    }
  };
  // Perfetto answers PING with PONG when its window is ready; from a file it would not trust us.
  const hand = async (side: Side) => {
    const other = window.open(PERFETTO);
    if (!other) return setStatus('the window was blocked');
    try {
      const bytes = await trace(side, 'pftrace');
      const timer = setInterval(() => other.postMessage('PING', PERFETTO), 200);
      const end = () => {
        clearInterval(timer);
        window.removeEventListener('message', ready);
      };
      const ready = (e: MessageEvent) => {
        if (e.origin !== PERFETTO || e.data !== 'PONG') return;
        end();
        other.postMessage({ perfetto: { buffer: bytes.buffer, title: side.name, fileName: `${side.name}.pftrace` } }, PERFETTO);
      };
      window.addEventListener('message', ready);
      setTimeout(end, 60_000);
    } catch (e) {
      other.close();
      setStatus(String((e as Error).message));
    }
  };
  const served = location.protocol === 'http:';
  return (
    <div class="downloads">
      {sides.filter((s) => s.spec.text).map((s) => <p>Trace of <b><bdi>{name(s.name)}</bdi></b>:{' '}
        <button type="button" class="download" onClick={() => save(s, 'pftrace')}>.pftrace</button>{' '}
        <button type="button" class="download" onClick={() => save(s, 'dat')}>.dat</button>{' '}
        {served ? <button type="button" onClick={() => hand(s)}>Open in Perfetto</button> : null}</p>)}
      <p class="hint">.pftrace opens in ui.perfetto.dev (drag it there), .dat in trace-cmd and KernelShark. <span role="status">{status}</span></p>
    </div>
  );
}
