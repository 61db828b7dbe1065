// Reports of every kind, made by the program, opened from disk in a real browser.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { chromium } from 'playwright-core';

export const web = join(dirname(fileURLToPath(import.meta.url)), '..');
export const root = join(web, '..');
export const program = process.env.WATTIF ?? join(root, 'target', 'debug', 'wattif');
export const folder = mkdtempSync(join(tmpdir(), 'wattif-report-'));

const browsers = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

export const launch = () => chromium.launch({ executablePath: browsers.find((b) => b && existsSync(b)), args: flags });

/** What the program prints; a verdict of "no" is no failure. */
export function wattif(...args) {
  try {
    return execFileSync(program, args, { cwd: folder, encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });
  } catch (e) {
    if (e.status === 1) return e.stdout;
    throw new Error(`wattif ${args.join(' ')}: ${e.stderr}`);
  }
}

const made = new Map();

/** A report and the JSON of the same command; each is made once. */
export function report(name, ...args) {
  if (!made.has(name)) {
    const file = join(folder, `${name}.html`);
    const json = JSON.parse(wattif(...args, '--json', '--report', file));
    made.set(name, { file, url: pathToFileURL(file).href, json });
  }
  return made.get(name);
}

/** A report of a million slices on eight CPUs. */
export function million() {
  const workload = join(folder, 'million.json');
  const task = { instance: 8, run: 40, timer: { ref: 'unique', period: 400 } };
  writeFileSync(workload, JSON.stringify({ tasks: { short: task }, global: { duration: 60 } }));
  return report('million', 'run', workload, '-p', 'hikey960');
}

/** A page that notes everything it should not do. */
export async function open(browser, url, { scheme = 'light', before, width = 1280, height = 900, quiet = true } = {}) {
  const context = await browser.newContext({ colorScheme: scheme, viewport: { width, height }, reducedMotion: 'reduce', acceptDownloads: true });
  const page = await context.newPage();
  const faults = [];
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && faults.push(`console ${m.type()}: ${m.text()}`));
  page.on('pageerror', (e) => faults.push(`error: ${e.message}`));
  page.on('dialog', (d) => { faults.push(`dialog: ${d.message()}`); d.dismiss(); });
  page.on('request', (r) => !(r.url() === url || /^(blob|data):/.test(r.url())) && faults.push(`request: ${r.url()}`));
  if (before) await page.addInitScript(before);
  await page.goto(url);
  if (quiet) await page.waitForSelector('#lab');
  return { page, context, faults, close: () => context.close() };
}

/** The simulator of the checked-in page, without a browser. */
export async function simulator() {
  const wasm = gunzipSync(readFileSync(join(web, 'dist', 'wattif.wasm.gz')));
  const { instance } = await WebAssembly.instantiate(wasm, { page: { progress: () => {} } });
  const x = instance.exports;
  return (request) => {
    const bytes = new TextEncoder().encode(JSON.stringify(request));
    const at = x.wattif_input(bytes.length);
    new Uint8Array(x.memory.buffer, at, bytes.length).set(bytes);
    const length = x.wattif_answer();
    const answer = JSON.parse(new TextDecoder().decode(new Uint8Array(x.memory.buffer, x.wattif_json(), length)));
    if (answer.error) throw new Error(JSON.stringify(answer));
    return answer.ok;
  };
}
