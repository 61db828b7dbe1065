// How long a report of a million slices takes to open and to draw: one line of JSON. Nothing is asserted.
import { readFileSync } from 'node:fs';
import { launch, million, open } from './harness.mjs';

const { url, json, file } = million();
const browser = await launch();
const begun = performance.now();
const { page, close } = await open(browser, url);
const shown = performance.now() - begun;
const canvas = page.locator('canvas[role=application]');
await page.waitForFunction(() => document.querySelector('canvas[role=application]')?.dataset.frameMs, null, { timeout: 60_000 });
const drawn = performance.now() - begun;
await canvas.focus();

/** Drawing times while keys are pressed, ms, as the page measures them, and the times between the browser's frames. */
async function frames(keys) {
  const draws = [], gaps = [];
  for (const key of keys) {
    await page.keyboard.press(key);
    gaps.push(await page.evaluate(() => new Promise((done) => requestAnimationFrame((a) => requestAnimationFrame((b) => done(b - a))))));
    draws.push(Number(await canvas.evaluate((c) => c.dataset.frameMs)));
  }
  return { draws, gaps };
}
const keys = [...'wwwwwwwwwwww', ...'dddddddd', ...'ssssssssssss', ...'aaaa'];
const { draws, gaps } = await frames([...keys, ...keys]);
const sorted = (all) => [...all].sort((a, b) => a - b);
const at = (all, share) => Number(sorted(all)[Math.min(all.length - 1, Math.floor(all.length * share))].toFixed(1));
const inFile = await page.locator('.note').allTextContents();
console.log(JSON.stringify({
  case: 'page', slices: json.slices, cpus: json.cpus.length, duration_s: json.spec.duration_s, file_mb: Number((readFileSync(file).length / 1e6).toFixed(1)),
  shown_ms: Math.round(shown), opened_ms: Math.round(drawn), frames: draws.length, draw_ms: { p50: at(draws, 0.5), p90: at(draws, 0.9), max: at(draws, 1) },
  frame_ms: { p50: at(gaps, 0.5), max: at(gaps, 1) }, decimated: inFile.some((n) => n.includes('slices are in this file')),
}));
await close();
await browser.close();
