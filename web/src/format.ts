// Numbers and names as people read them.

/** Four digits, as the tables of the command line. */
export function num(value: number | null | undefined, digits = 4): string {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  if (value === 0 || !Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return String(value);
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  if (magnitude < -4 || magnitude >= 15) return value.toExponential(digits - 1);
  return value.toFixed(Math.max(0, digits - 1 - magnitude));
}

/** A length of time in the unit that suits it. */
export function time(ns: number): string {
  const units: [number, string][] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']];
  const found = units.find(([size]) => Math.abs(ns) >= size);
  return found ? `${num(ns / found[0], 5)} ${found[1]}` : `${Math.round(ns)} ns`;
}

export const ghz = (khz: number) => `${(khz / 1e6).toFixed(3)} GHz`;

/** A name from outside: what could steer a display, or turn its direction, stands as its code. */
export function name(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu,
    (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
}

/** Colours that people with any colour vision tell apart (Okabe and Ito). */
export const COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#7f7f7f'];
export const colour = (i: number) => COLOURS[i % COLOURS.length];
