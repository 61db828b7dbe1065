import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { get } from 'node:http';
import { after, before, test } from 'node:test';
import { folder, launch, million, open, program, report, simulator, wattif, web } from './harness.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const shots = join(web, 'screenshots');
mkdirSync(shots, { recursive: true });

let browser;
before(async () => { browser = await launch(); });
after(async () => { await browser.close(); });

const kinds = {
  run: () => report('run', 'run', 'sched_idle', '--duration', '1s'),
  frames: () => report('frames', 'run', 'scroll', '-p', 'hikey620', '--duration', '3s'),
  repro: () => report('repro', 'repro', 'sched_idle_placement', '--seeds', '2'),
  sweep: () => report('sweep', 'sweep', 'server', '--axis', 'cpuidle=menu,teo', '--axis', 'cpufreq=schedutil,performance', '--duration', '300ms', '--pareto', 'energy.total,wakeup_latency_us.p99', '--store', join(folder, 'sweep.sqlite')),
  recorded: () => report('recorded', 'replay', trace(), '--as-recorded', '-p', 'hikey620'),
  replay: () => report('replay', 'replay', trace(), '-p', 'hikey620', '-k', 'linux-5.3', '-k', 'linux-5.6', '--seeds', '2'),
  compare: () => report('compare', 'compare', 'sched_idle', '-k', 'linux-5.3', '-k', 'linux-5.6', '--seeds', '12', '--duration', '1s'),
};


const value = (text) => (text === null ? null : Number(text));

/** A recording to replay; it is that of a run. */
function trace() {
  const file = join(folder, 'recording.dat');
  if (!existsSync(file)) wattif('run', 'server', '-p', 'hikey620', '--duration', '500ms', '--trace', file);
  return file;
}

/** All values behind the cells of a row, in order. */
const values = (page, selector) => page.locator(`${selector} data`).evaluateAll((all) => all.map((d) => Number(d.value)));

test('a run: numbers are those of the JSON', async () => {
  const { url, json } = kinds.run();
  const { page, faults, close } = await open(browser, url);
  const m = json.metrics;
  const of = { 'wakeup_latency_us.p50': m.wakeup_latency_us.p50, 'wakeup_latency_us.p99': m.wakeup_latency_us.p99, 'wakeup_latency_us.max': m.wakeup_latency_us.max, migrations: m.migrations, slices: m.slices, 'energy.total': m.energy.total };
  for (const [name, expected] of Object.entries(of)) {
    const [shown] = await values(page, `#comparison [data-metric="${name}"]`);
    assert.equal(shown, expected, name);
  }
  assert.equal(await page.textContent('.digest'), json.digest);
  assert.equal(await page.textContent('.hash'), json.spec.hash);
  const residency = json.domains.flatMap((d) => d.freq_residency.map((f) => f.s));
  assert.deepEqual(await values(page, '#frequency details'), residency);
  // What the oracle would have chosen is not known where idle states have no powers: rows may be shorter.
  const usages = await page.locator('#idle details tbody tr').evaluateAll((rows) => rows.map((row) => Number(row.querySelector('data').value)));
  const usage = json.cpus.flatMap((c) => c.idle).reduce((sum, s) => sum + s.usage, 0);
  assert.equal(usages.reduce((a, b) => a + b, 0), usage);
  const energy = await values(page, '#energy details');
  const sum = energy.filter((_, i) => i % 2 === 0).reduce((a, b) => a + b, 0);
  assert.ok(Math.abs(sum - m.energy.total) < 1e-9 * m.energy.total, `${sum} ${m.energy.total}`);
  const latencies = m.wakeup_latency_us;
  assert.deepEqual((await values(page, '#latency > .scroll tbody tr:first-child')), ['count', 'min', 'mean', 'p50', 'p90', 'p95', 'p99', 'p999', 'max'].map((k) => latencies[k]));
  assert.deepEqual(faults, []);
  await close();
});

test('a comparison: means, intervals and ratios are those of the JSON', async () => {
  const { url, json } = kinds.compare();
  const { page, faults, close } = await open(browser, url);
  for (const row of json.metrics) {
    const r = row.ratio_to_first[1];
    const expected = [...row.per_kernel.flatMap((e) => [e.mean, ...(e.ci95 ?? [])]), r.value, ...(r.ci95 ?? []), r.p_holm].filter((v) => v !== null);
    assert.deepEqual(await values(page, `tr[data-metric="${row.name}"]`), expected, row.name);
    const judged = await page.locator(`#comparison tr[data-metric="${row.name}"] td`).nth(-2).textContent();
    assert.equal(judged, r.p_holm === null ? '–' : r.verdict ?? 'not sure', row.name);
  }
  assert.ok(['better', 'worse'].some((word) => json.metrics.some((m) => m.ratio_to_first[1].verdict === word)));
  assert.equal(await page.locator('#comparison svg.whisker').count(), json.metrics.filter((m) => m.ratio_to_first[1].value > 0).length);
  assert.ok((await page.locator('.answer li').count()) > 3);
  assert.deepEqual(faults, []);
  await close();
});

test('published beside simulated, the sweep, the recording: numbers are those of the JSON', async () => {
  const repro = kinds.repro();
  let { page, faults, close } = await open(browser, repro.url);
  const rows = repro.json.results.flatMap((r) => r.arms);
  const shown = await page.locator('#published table').first().locator('tbody tr').evaluateAll((all) => all.map((r) => [4, 5].map((i) => r.children[i].querySelector('data')?.value ?? null)));
  assert.deepEqual(shown.map((r) => r.map(value)), rows.map((a) => [a.published, a.simulated]));
  assert.deepEqual(faults, []);
  await close();

  const sweep = kinds.sweep();
  ({ page, faults, close } = await open(browser, sweep.url));
  const means = await page.locator('#sweep .scroll tbody tr').evaluateAll((all) => all.map((r) => Number(r.children[1].querySelector('data').value)));
  assert.deepEqual(means, sweep.json.points.map((p) => Object.values(p.metrics)[0].mean));
  assert.deepEqual(faults, []);
  await close();

  const replay = kinds.replay();
  ({ page, faults, close } = await open(browser, replay.url));
  const recorded = await page.locator('#replay table').first().locator('tbody tr').evaluateAll((all) => all.map((r) => r.children[2].querySelector('data')?.value ?? null));
  assert.deepEqual(recorded.map(value), replay.json.self_check.figures.map((f) => f.recorded));
  assert.equal(await page.locator('canvas[role=application]').count(), 1);
  assert.deepEqual(faults, []);
  await close();
});

for (const scheme of ['light', 'dark']) {
  test(`every kind of report in ${scheme}: nothing is asked of a network, nothing fails, axe finds nothing`, async () => {
    for (const [name, make] of Object.entries(kinds)) {
      const { page, faults, close } = await open(browser, make().url, { scheme });
      await page.waitForTimeout(300);
      await page.screenshot({ path: join(shots, `${name}-${scheme}.png`), fullPage: true });
      await page.evaluate(axe);
      const found = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
      assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 160)).slice(0, 3).join(' | ')}`), [], name);
      const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number)[0]);
      assert.equal(background > 128, scheme === 'light');
      assert.deepEqual(faults, [], name);
      await close();
    }
  });
}

test('the other theme by its button', async () => {
  const { page, close } = await open(browser, kinds.run().url);
  await page.click('#theme');
  assert.ok((await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number)[0])) < 128);
  await close();
});

test('by keyboard alone: to the answer, through the timeline, to why', async () => {
  const { page, faults, close } = await open(browser, kinds.compare().url);
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  const canvas = page.locator('canvas[role=application]');
  for (let i = 0; i < 200 && !(await canvas.evaluate((c) => c === document.activeElement)); i++) await page.keyboard.press('Tab');
  assert.ok(await canvas.evaluate((c) => c === document.activeElement), 'the timeline is reached with Tab');
  const looks = () => canvas.evaluate((c) => c.toDataURL());
  const settled = async () => { await page.waitForTimeout(80); return looks(); };
  const whole = await settled();
  await page.keyboard.press('w');
  const near = await settled();
  assert.notEqual(near, whole, 'W zooms');
  await page.keyboard.press('d');
  assert.notEqual(await settled(), near, 'D pans');
  await page.keyboard.press('0');
  assert.equal(await settled(), whole, '0 shows the whole run');
  await page.keyboard.press('l');
  await page.waitForSelector('.selected table', { timeout: 60_000 });
  const first = await page.textContent('.selected dl');
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction((before) => document.querySelector('.selected dl').textContent !== before, first);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('x');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'search');
  await page.keyboard.type('cfs_thread-3');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelector('.selected dl').textContent.includes('cfs_thread-3'));
  assert.deepEqual(faults, []);
  await close();
});

test('why: the worst latency is the JSON\'s, and its decisions are told', async () => {
  const { url, json } = kinds.run();
  const { page, close } = await open(browser, url);
  await page.click('.jump-worst');
  await page.waitForSelector('.selected table', { timeout: 60_000 });
  const text = await page.textContent('.selected dl');
  const waited = json.metrics.wakeup_latency_us.max;
  const shown = text.match(/woken([\d.]+) (µs|ms)/);
  assert.ok(Math.abs(Number(shown[1]) * (shown[2] === 'ms' ? 1000 : 1) - waited) < waited * 0.01, `${text} ${waited}`);
  assert.match(await page.textContent('.selected table'), /picked|put/);
  await close();
});

/** In the page: notes what workers are asked and answer; what `window.hold` says of a question keeps it in `window.held`. */
function spied() {
  window.workers = 0;
  window.asked = [];
  window.answered = [];
  window.held = [];
  window.Worker = class extends Worker {
    constructor(...args) {
      super(...args);
      window.workers += 1;
      this.addEventListener('message', (e) => { if (e.data.json) window.answered.push(window.asked.at(-1)); });
    }
    postMessage(message, ...more) {
      if (message.request) window.asked.push(JSON.parse(message.request).do);
      const go = () => super.postMessage(message, ...more);
      if (message.request && window.hold?.(window.asked)) window.held.push(go);
      else go();
    }
  };
}

test('why: an answer that comes after another selection is not taken for that one\'s', async () => {
  const { page, faults, close } = await open(browser, kinds.run().url, { before: spied });
  await page.evaluate(() => { window.hold = (asked) => asked.at(-1) === 'why'; });
  await page.click('.jump-worst');
  await page.waitForFunction(() => window.held.length === 1);
  await page.focus('canvas[role=application]');
  const first = await page.textContent('.selected dl');
  await page.keyboard.press('ArrowRight');
  await page.waitForFunction((before) => document.querySelector('.selected dl').textContent !== before, first);
  // The first question gets its answer now, the second never.
  await page.evaluate(() => window.held[0]());
  await page.waitForFunction(() => window.answered.includes('why') && window.held.length === 2, null, { timeout: 60_000 });
  await page.waitForTimeout(100);
  assert.equal(await page.locator('.selected table').count(), 0);
  assert.match(await page.textContent('.selected'), /running it again/);
  assert.deepEqual(faults, []);
  await close();
});

test('a run cancelled while the simulator is unpacked, and another one: one worker, asked once', async () => {
  const slow = () => {
    const plain = Response.prototype.arrayBuffer;
    Response.prototype.arrayBuffer = async function () {
      const bytes = await plain.call(this);
      await new Promise((done) => setTimeout(done, 1500));
      return bytes;
    };
  };
  const { page, faults, close } = await open(browser, kinds.run().url, { before: `(${spied})(); (${slow})()` });
  for (const status of ['Cancelled.', 'Done']) {
    await page.click('#lab-run');
    if (status === 'Cancelled.') await page.click('#lab-cancel');
    await page.waitForFunction((said) => document.querySelector('#lab-status').textContent.startsWith(said), status, { timeout: 120_000 });
  }
  assert.equal(await page.evaluate(() => window.workers), 1);
  assert.equal(await page.evaluate(() => window.asked.filter((a) => a === 'load').length), 1);
  assert.match(await page.textContent('#lab-status'), /the same digests/);
  assert.deepEqual(faults, []);
  await close();
});

test('a ratio beyond the axis: its mark is at the end of the drawing', async () => {
  const file = join(folder, 'beyond.html');
  const beyond = (_, head, data) => {
    const report = JSON.parse(data);
    report.repro.results[0].arms.forEach((arm, i) => { arm.simulated = arm.published * (i ? 1e-3 : 1e3); });
    return head + JSON.stringify(report).replaceAll('<', '\\u003c');
  };
  writeFileSync(file, readFileSync(kinds.repro().file, 'utf8').replace(/(id="wattif-report"[^>]*>)([^<]*)/, beyond));
  const { page, close } = await open(browser, pathToFileURL(file).href);
  const marks = await page.locator('svg.whisker').evaluateAll((all) => all.map((svg) => {
    const box = (of) => of.getBBox();
    const mark = svg.querySelector('circle, rect');
    return [box(mark).x, box(mark).x + box(mark).width, svg.viewBox.baseVal.width];
  }));
  assert.ok(marks.length > 1 && marks.every(([from, to, width]) => from >= 0 && to <= width), String(marks));
  await close();
});

test('names of a hostile trace are text', async () => {
  const evil = '<img src=x onerror=alert(1)></script><script>alert(2)</script>"\'&\u202e\u0007abc';
  const workload = join(folder, 'evil.json');
  writeFileSync(workload, JSON.stringify({ tasks: { [evil]: { instance: 2, run: 500, timer: { ref: 'a', period: 4000 } } }, global: { duration: 1 } }));
  const { url } = report('evil', 'run', workload);
  const { page, faults, close } = await open(browser, url);
  assert.equal(await page.locator('img').count(), 0);
  // But for the editor, which holds the file itself.
  const text = (await page.locator('section:not(#lab)').allTextContents()).join(' ');
  assert.ok(text.includes('<img src=x onerror=alert(1)></script>'), 'shown as it is');
  assert.ok(!/[\u202e\u0007]/.test(text) && text.includes('\\u{202e}'), 'what would steer the display is a code');
  await page.locator('canvas[role=application]').hover({ position: { x: 400, y: 60 } });
  assert.deepEqual(faults, []);
  await close();
});

test('names of a hostile recording are text', async () => {
  const names = ['<b>"&\'</b>', '</script>', '\u202eevil\u2066', '\u001b[31m\u0007', '${1}{{x}}'];
  const tasks = Object.fromEntries(names.map((n, i) => [n, { run: 300 + i, timer: { ref: `t${i}`, period: 4000 } }]));
  const workload = join(folder, 'evil-recording.json');
  writeFileSync(workload, JSON.stringify({ tasks, global: { duration: 1 } }));
  for (const ending of ['pftrace', 'dat', 'txt']) {
    const recording = join(folder, `<i>evil&"'.${ending}`);
    wattif('run', workload, '-p', 'hikey620', '--duration', '200ms', '--trace', recording);
    for (const args of [['--as-recorded'], ['-k', 'linux-5.6', '-k', 'linux-6.12', '--seeds', '2']]) {
      const { url } = report(`evil-${ending}-${args[0]}`, 'replay', recording, '-p', 'hikey620', ...args);
      const { page, faults, close } = await open(browser, url);
      assert.equal(await page.locator('#app b:not(.downloads b):not(#comparison b), #app i, #app main script').count(), 0, `${ending}: no markup of a name`);
      const texts = await page.locator('section:not(#lab)').allTextContents();
      const text = texts.join(' ');
      assert.ok(text.includes('<b>"&\'</b>') && text.includes('</script>') && text.includes('<i>evil&"\''), `${ending} ${args[0]}: shown as it is`);
      assert.ok(!/[\u202a-\u202e\u2066-\u2069\u0000-\u0008\u001b]/.test(text), `${ending}: nothing steers the display`);
      await page.keyboard.press('Tab');
      await page.locator('canvas[role=application]').focus();
      await page.keyboard.press('l');
      await page.waitForSelector('.selected dl');
      assert.deepEqual(faults, [], ending);
      await close();
    }
  }
});

test('a replay run again in the page: digests and figures are those of the program', async () => {
  const { url, json } = kinds.replay();
  const { page, faults, close } = await open(browser, url);
  await page.click('#lab-run');
  await page.waitForFunction(() => document.querySelector('#lab-status').textContent.startsWith('Done'), null, { timeout: 120_000 });
  assert.match(await page.textContent('#lab-status'), /the same digests/);
  for (const row of json.comparison.metrics) {
    const r = row.ratio_to_first[1];
    const expected = [...row.per_kernel.flatMap((e) => [e.mean, ...(e.ci95 ?? [])]), r.value, ...(r.ci95 ?? []), r.p_holm].filter((v) => v !== null);
    assert.deepEqual(await values(page, `tr[data-metric="${row.name}"]`), expected, row.name);
  }
  assert.deepEqual(faults, []);
  await close();
});

test('more than two kernels: any two in the timeline, traces of all', async () => {
  const { url, json } = report('three', 'compare', 'sched_idle', '-k', 'linux-5.3', '-k', 'linux-5.4', '-k', 'linux-5.6', '--seeds', '2', '--duration', '300ms');
  assert.equal(json.kernels.length, 3);
  const { page, faults, close } = await open(browser, url);
  const canvas = page.locator('canvas[role=application]');
  const label = () => canvas.getAttribute('aria-label');
  assert.match(await label(), /A linux-5\.3 above B linux-5\.4/);
  await page.selectOption('#timeline-b', { label: 'linux-5.6' });
  await page.waitForFunction(() => document.querySelector('canvas[role=application]').getAttribute('aria-label').includes('B linux-5.6'), null, { timeout: 60_000 });
  assert.equal(await page.textContent('#timeline-status'), '', 'simulated again, with the digest of the report');
  await page.selectOption('#timeline-a', { label: 'linux-5.4' });
  assert.match(await label(), /A linux-5\.4 above B linux-5\.6/);
  await canvas.focus();
  await page.keyboard.press('x');
  await page.keyboard.press('l');
  await page.waitForSelector('.selected table', { timeout: 60_000 });
  const [download] = await Promise.all([page.waitForEvent('download', { timeout: 60_000 }), page.locator('.download').nth(5).click()]);
  const path = join(folder, 'third.dat');
  await download.saveAs(path);
  wattif('run', 'sched_idle', '--duration', '300ms', '-k', 'linux-5.6', '--trace', join(folder, 'third-own.dat'));
  assert.ok(readFileSync(path).equals(readFileSync(join(folder, 'third-own.dat'))));
  assert.deepEqual(faults, []);
  await close();
});

test('by mouse: a sleep and a frequency have their why, too; signals are drawn; two fingers pinch', async () => {
  const { url } = kinds.run();
  const { page, faults, close } = await open(browser, url);
  const canvas = page.locator('canvas[role=application]');
  const { width } = await canvas.boundingBox();
  await canvas.focus();
  for (const key of 'wwwwww') await page.keyboard.press(key);
  await page.waitForTimeout(100);
  // Rows begin below axis and title: 20 px of slices, 5 of idle states, 9 of frequency.
  for (const [y, what] of [[44 + 22, 'idle state'], [44 + 30, 'frequency']]) {
    let seen = '';
    for (let x = 60; x < width - 5 && !seen.startsWith(what); x += 9) {
      await canvas.click({ position: { x, y } });
      seen = (await page.locator('.selected dl').count()) ? await page.textContent('.selected dl') : '';
    }
    assert.ok(seen.startsWith(what), `${what}: ${seen}`);
    await page.waitForSelector('.selected table', { timeout: 60_000 });
    assert.match(await page.textContent('.selected table'), what === 'frequency' ? /GHz|kHz/ : /idle state/);
  }
  const looks = () => canvas.evaluate((c) => c.toDataURL());
  const plain = await looks();
  await page.locator('#timeline input[type=checkbox]').check();
  await page.waitForTimeout(100);
  assert.notEqual(await looks(), plain, 'signals');
  const before = await page.textContent('#timeline details summary');
  await canvas.evaluate((c) => {
    const at = (type, id, x) => c.dispatchEvent(new PointerEvent(type, { pointerId: id, clientX: x, clientY: 300, bubbles: true, pointerType: 'touch' }));
    c.setPointerCapture = () => {};
    at('pointerdown', 11, 400); at('pointerdown', 12, 600);
    at('pointermove', 12, 800); at('pointerup', 12, 800); at('pointerup', 11, 400);
  });
  await page.waitForFunction((old) => document.querySelector('#timeline details summary').textContent !== old, before);
  assert.deepEqual(faults, []);
  await close();
});

test('frames: deadlines and times are those of the JSON', async () => {
  const { url, json } = kinds.frames();
  const { page, close } = await open(browser, url);
  for (const [mark, f] of Object.entries(json.metrics.frames)) {
    const d = f.duration_us;
    const row = page.locator('#frames > .scroll', { hasText: `${mark}, µs` }).locator('tbody tr').first();
    const shown = await row.locator('data').evaluateAll((all) => all.map((e) => Number(e.value)));
    assert.deepEqual(shown.slice(0, 6), [d.count, d.mean, d.p50, d.p90, d.p99, d.max], mark);
  }
  assert.match(await page.textContent('#frames'), /deadline of/);
  await close();
});

test('narrow and on paper: nothing is wider than the page', async () => {
  for (const [name, make] of Object.entries(kinds)) {
    const { page, faults, close } = await open(browser, make().url, { width: 360, height: 740 });
    await page.waitForTimeout(200);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 360, `${name}: ${wide} px wide on 360`);
    if (name === 'compare') {
      await page.screenshot({ path: join(shots, 'compare-narrow.png'), fullPage: true });
      await page.setViewportSize({ width: 794, height: 1123 });
      await page.emulateMedia({ media: 'print' });
      await page.screenshot({ path: join(shots, 'compare-print.png'), fullPage: true });
      assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 794, 'on A4');
      assert.equal(await page.locator('#latency .u-legend .u-label', { hasText: 'linux-5.6' }).isVisible(), true, 'curves have their names');
    }
    assert.deepEqual(faults, [], name);
    await close();
  }
});

test('the lab: the same digest, another kernel, a mistake, a cancelled run', async () => {
  const { url, json } = kinds.run();
  const { page, faults, close } = await open(browser, url);
  const done = () => page.waitForFunction(() => document.querySelector('#lab-status').textContent.startsWith('Done'), null, { timeout: 120_000 });
  await page.click('#lab-run');
  await done();
  assert.match(await page.textContent('#lab-status'), /the same digests/);
  assert.equal(await page.textContent('.digest'), json.digest);

  await page.selectOption('#lab-kernel-a', 'linux-5.6');
  await page.fill('#lab-seed', '7');
  await page.fill('#lab-set', 'cpuidle=teo');
  await page.click('#lab-run');
  await page.waitForFunction((before) => document.querySelector('.digest').textContent !== before, json.digest, { timeout: 120_000 });
  const native = JSON.parse(wattif('run', 'sched_idle', '--duration', '1s', '-k', 'linux-5.6', '--seed', '7', '--set', 'cpuidle=teo', '--json'));
  assert.equal(await page.textContent('.digest'), native.digest);
  const [p99] = await values(page, '#comparison [data-metric="wakeup_latency_us.p99"]');
  assert.equal(p99, native.metrics.wakeup_latency_us.p99, 'figures are those of the new run');

  const edited = '{ "tasks": { "a": { "instance": 3, "run": 700, "timer": { "ref": "unique", "period": 5000 } } } }';
  writeFileSync(join(folder, 'edited.json'), edited);
  await page.fill('#lab-text', edited);
  await page.click('#lab-run');
  await page.waitForFunction((before) => document.querySelector('.digest').textContent !== before, native.digest, { timeout: 120_000 });
  const other = JSON.parse(wattif('run', 'edited.json', '--duration', '1s', '-k', 'linux-5.6', '--seed', '7', '--set', 'cpuidle=teo', '--json'));
  assert.equal(await page.textContent('.digest'), other.digest, 'the text in the editor is what runs');

  await page.fill('#lab-text', '{ "tasks": { "a": { "rnu": 5, "sleep": 100 } } }');
  await page.waitForSelector('.findings li');
  assert.match(await page.textContent('.findings'), /rnu/);
  assert.ok((await page.locator('.editor mark').count()) > 0, 'marked where it stands');

  await page.fill('#lab-text', '{ "tasks": { "a": { "run": 500, "sleep": 500 } } }');
  await page.fill('#lab-duration', '3000');
  await page.click('#lab-run');
  await page.waitForSelector('progress');
  await page.click('#lab-cancel');
  await page.waitForFunction(() => document.querySelector('#lab-status').textContent === 'Cancelled.');
  assert.deepEqual(faults, []);
  await close();
});

test('traces written by the page are read by the program', async () => {
  const { url, json } = kinds.run();
  const { page, close } = await open(browser, url);
  for (const [i, ending] of ['pftrace', 'dat'].entries()) {
    const [download] = await Promise.all([page.waitForEvent('download', { timeout: 60_000 }), page.locator('.download').nth(i).click()]);
    const path = join(folder, `page.${ending}`);
    await download.saveAs(path);
    const own = join(folder, `program.${ending}`);
    wattif('run', 'sched_idle', '--duration', '1s', '--trace', own, ...(ending === 'pftrace' ? ['--trace-detail', 'full'] : []));
    assert.ok(readFileSync(path).equals(readFileSync(own)), `${ending}: byte for byte what the program writes`);
    const read = JSON.parse(wattif('replay', path, '--as-recorded', '-p', 'hikey960', '--json'));
    assert.equal(read.metrics.slices, json.metrics.slices, ending);
  }
  await close();
});

test('the simulator in the page: digests are those of the program', async () => {
  const ask = await simulator();
  const cases = [
    ['hikey620', 'linux-5.6', 'server', 1], ['hikey960', 'linux-6.12', 'phone', 2], ['odroid_xu3', 'linux-3.13', 'usecase', 3],
    ['pixel6', 'android-6.6', 'jankbench', 4], ['power9_2s16c', 'linux-5.4', 'schbench', 5], ['sdm835', 'android-4.9-walt', 'game', 6],
    ['xeon_icx', 'linux-6.6', 'pgbench', 7], ['rpi5', 'linux-6.1', 'sched_idle_placement/sched_idle.json', 8],
  ];
  for (const [platform, kernel, workload, seed] of cases) {
    const { specs } = ask({ do: 'load', platform: { name: platform }, kernels: [{ name: kernel }], workload: { name: workload }, seed: String(seed), duration_s: 0.25 });
    const run = ask({ do: 'run', spec: specs[0].text }).side.run;
    const native = JSON.parse(wattif('run', workload, '-p', platform, '-k', kernel, '--seed', String(seed), '--duration', '250ms', '--json'));
    const hint = 'the simulator in web/dist is of other sources: cargo xtask web';
    assert.equal(run.digest, native.digest, `${platform} ${kernel} ${workload}: ${hint}`);
    assert.equal(run.spec.hash, native.spec.hash);
    assert.deepEqual({ ...run.metrics }, { ...native.metrics }, 'to the last bit');
  }
});

test('wattif lab: served on loopback, for its own name only, and run there', async () => {
  const child = spawn(program, ['lab', 'server', '--duration', '200ms'], { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const [line] = await once(child.stdout, 'data');
    const url = String(line).trim();
    const { page, faults, close } = await open(browser, url);
    await page.selectOption('#lab-platform', 'hikey620');
    await page.selectOption('#lab-kernel-a', 'linux-5.6');
    await page.selectOption('#lab-workload', 'server');
    await page.click('#lab-run');
    await page.waitForFunction(() => document.querySelector('#lab-status').textContent.startsWith('Done'), null, { timeout: 120_000 });
    const native = JSON.parse(wattif('run', 'server', '-p', 'hikey620', '-k', 'linux-5.6', '--duration', '200ms', '--json'));
    assert.equal(await page.textContent('.digest'), native.digest);
    assert.equal(await page.locator('text=Open in Perfetto').count(), 1);
    const { port } = new URL(url);
    const elsewhere = await new Promise((done) => get({ host: '127.0.0.1', port, path: '/', headers: { host: 'example.org' } }, (r) => done(r.resume().statusCode)));
    assert.equal(elsewhere, 403, 'another name is refused');
    assert.equal((await fetch(`${url}other`)).status, 404);
    assert.deepEqual(faults, []);
    await close();
  } finally {
    child.kill();
  }
});

test('from wattif lab into Perfetto: PING, PONG, then the trace', async () => {
  const child = spawn(program, ['lab', 'server', '--duration', '100ms'], { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const [line] = await once(child.stdout, 'data');
    const { page, context, close } = await open(browser, String(line).trim());
    // Perfetto's side of the protocol, at its address: it is slow to be ready, answers PING with PONG, and takes one trace.
    const stub = `<script>
      window.heard = []; const ready = performance.now() + 500;
      addEventListener('message', (e) => {
        heard.push(e.data === 'PING' ? 'PING' : 'trace');
        if (e.data === 'PING' && performance.now() > ready) e.source.postMessage('PONG', e.origin);
        if (e.data.perfetto) { window.from = e.origin; window.got = e.data.perfetto; }
      });
    </script>`;
    await context.route('https://ui.perfetto.dev/**', (route) => route.fulfill({ contentType: 'text/html', body: stub }));
    await page.click('#lab-run');
    await page.waitForFunction(() => document.querySelector('#lab-status').textContent.startsWith('Done'), null, { timeout: 120_000 });
    const [popup] = await Promise.all([context.waitForEvent('page'), page.click('text=Open in Perfetto')]);
    await popup.waitForFunction(() => window.got, null, { timeout: 60_000 });
    const got = await popup.evaluate(() => ({ bytes: [...new Uint8Array(got.buffer)], title: got.title, file: got.fileName, from: window.from, heard }));
    assert.equal(got.from, new URL(String(line).trim()).origin);
    assert.ok(got.heard.filter((h) => h === 'PING').length > 1 && got.heard.filter((h) => h === 'trace').length === 1, String(got.heard));
    assert.deepEqual([got.title, got.file], ['linux-6.12', 'linux-6.12.pftrace']);
    const own = join(folder, 'perfetto-own.pftrace');
    wattif('run', 'server', '--duration', '100ms', '--trace', own, '--trace-detail', 'full');
    assert.ok(Buffer.from(got.bytes).equals(readFileSync(own)), 'the trace that the program writes');
    await close();
  } finally {
    child.kill();
  }
});

test('a trace for Perfetto that cannot be made: the window is closed, and why is said', async () => {
  const child = spawn(program, ['lab', 'server', '--duration', '100ms'], { cwd: folder, stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const [line] = await once(child.stdout, 'data');
    const { page, context, faults, close } = await open(browser, String(line).trim(), { before: spied });
    await context.route('https://ui.perfetto.dev/**', (route) => route.fulfill({ contentType: 'text/html', body: '' }));
    await page.evaluate(() => {
      window.hold = (asked) => { if (asked.at(-1) === 'trace') throw new Error('no memory'); };
      // Whoever opened the window knows that it is closed, also when that was before the browser's driver had seen it.
      const open = window.open.bind(window);
      window.open = (...what) => (window.opened = open(...what));
    });
    // The page asks what there is first.
    await page.waitForFunction(() => window.answered.includes('list'));
    await page.click('text=Open in Perfetto');
    await page.waitForFunction(() => document.querySelector('.downloads [role=status]').textContent === 'no memory');
    await page.waitForFunction(() => window.opened.closed);
    assert.deepEqual(faults, []);
    await close();
  } finally {
    child.kill();
  }
});

test('a run without energy and frames says so', async () => {
  const { url, json } = report('bare', 'run', 'sched_idle', '-p', 'guest_x86_2cpu', '--duration', '500ms');
  assert.equal(json.metrics.energy, null);
  const { page, faults, close } = await open(browser, url);
  assert.match(await page.textContent('#energy'), /nothing is known of the power/);
  assert.match(await page.textContent('#frames'), /marks no frames/);
  assert.deepEqual(faults, []);
  await close();
});

test('a browser without DecompressionStream, or without WebAssembly: a note, and the tables', async () => {
  const { url, json } = kinds.run();
  for (const [missing, note] of [['DecompressionStream', /no DecompressionStream/], ['WebAssembly', /no WebAssembly/]]) {
    const { page, faults, close } = await open(browser, url, { before: `delete globalThis.${missing}` });
    assert.match(await page.textContent('header [role=status]'), note);
    assert.match(await page.textContent('#lab'), /lacks WebAssembly or DecompressionStream/);
    const [p99] = await values(page, '#comparison [data-metric="wakeup_latency_us.p99"]');
    assert.equal(p99, json.metrics.wakeup_latency_us.p99);
    assert.deepEqual(faults, []);
    await close();
  }
});

test('a million slices: opens, pans and zooms; times are reported', async (t) => {
  const { url, json, file } = million();
  assert.ok(json.slices > 1e6, `${json.slices}`);
  assert.ok(readFileSync(file).length < 8.4e6 + 2.2e6, 'data of 8 MB at most beside page and simulator');
  t.diagnostic(`${json.slices} slices, ${(readFileSync(file).length / 1e6).toFixed(1)} MB`);
  const begun = Date.now();
  const { page, faults, close } = await open(browser, url);
  await page.waitForFunction(() => document.querySelector('canvas[role=application]')?.dataset.frameMs, null, { timeout: 60_000 });
  t.diagnostic(`opened in ${Date.now() - begun} ms`);
  const canvas = page.locator('canvas[role=application]');
  await canvas.focus();
  const frames = [];
  for (const key of ['w', 'w', 'd', 'w', 'w', 'w', 'a', 'w', 'w', 'w', 'w', 'w', 's', 's', '0']) {
    await page.keyboard.press(key);
    await page.waitForTimeout(40);
    frames.push(Number(await canvas.evaluate((c) => c.dataset.frameMs)));
  }
  t.diagnostic(`frames took ${frames.map((f) => f.toFixed(1)).join(' ')} ms; web/tests/bench.mjs measures them`);
  await page.click('.jump-worst');
  await page.waitForSelector('.selected dl');
  assert.deepEqual(faults, []);
  await close();
});

test('more than 8 MB of data: the shortest slices are left out, and the page says so', async () => {
  const workload = join(folder, 'many.json');
  const tasks = { short: { instance: 16, run: 35, timer: { ref: 'unique', period: 331 } }, odd: { instance: 8, run: 77, sleep: 501 } };
  writeFileSync(workload, JSON.stringify({ tasks, global: { duration: 60 } }));
  const { url, json, file } = report('many', 'run', workload, '-p', 'hikey960', '--duration', '60s');
  assert.ok(readFileSync(file).length < 8.4e6 + 2.2e6);
  const { page, faults, close } = await open(browser, url);
  const note = await page.textContent('#answer .note');
  const [shown, all] = note.match(/(\d+) of (\d+) slices/).slice(1).map(Number);
  assert.equal(all, json.slices);
  assert.ok(shown > 100_000 && shown < all, note);
  await page.waitForSelector('canvas[role=application]');
  assert.match(await page.locator('#timeline details caption').textContent(), new RegExp(`of ${shown}$`), 'those that are there');
  assert.deepEqual(faults, []);
  await close();
});

test('prints: the figures without the controls', async () => {
  const { page, close } = await open(browser, kinds.compare().url);
  await page.emulateMedia({ media: 'print' });
  assert.equal(await page.locator('#lab').isVisible(), false);
  assert.equal(await page.locator('#comparison').isVisible(), true);
  const pdf = await page.pdf({ format: 'A4' });
  assert.ok(pdf.length > 20_000);
  await close();
});

