// Builds the page: one HTML file with its styles and its code, stamped with a sum of the sources it is made of.
import { readFileSync, readdirSync } from 'node:fs';
import { defineConfig } from 'vite';

// What the page is made of; the test of the facade takes the same sum (FNV-1a: it notices changes, not attacks).
const files = ['index.html', 'package-lock.json', 'tsconfig.json', 'vite.config.js'];
export const sources = () => [...files, ...readdirSync('src').sort().map((name) => `src/${name}`)];

export function stamp() {
  let sum = 0xcbf29ce484222325n;
  for (const path of sources()) {
    for (const byte of [...Buffer.from(path), ...readFileSync(path)]) {
      sum = BigInt.asUintN(64, (sum ^ BigInt(byte)) * 0x100000001b3n);
    }
  }
  return sum.toString(16).padStart(16, '0');
}

const inline = {
  name: 'one-file',
  enforce: 'post',
  generateBundle(_, bundle) {
    const html = bundle['index.html'];
    let text = html.source;
    for (const [name, part] of Object.entries(bundle)) {
      if (part === html) continue;
      const place = name.endsWith('.css')
        ? new RegExp(`<link[^>]*href="[^"]*${name}"[^>]*>`)
        : new RegExp(`<script[^>]*src="[^"]*${name}"[^>]*></script>`);
      if (!place.test(text)) throw new Error(`${name} is used nowhere`);
      if (name.endsWith('.css')) {
        text = text.replace(place, () => `<style>${part.source.trim()}</style>`);
      } else {
        // Nothing in the code may end the script, or open a comment in it.
        const code = part.code.trim().replaceAll('</script', '<\\/script').replaceAll('<!--', '\\x3c!--');
        text = text.replace(place, '');
        text = text.replace('</body>', () => `<script type="module">${code}</script>\n</body>`);
      }
      delete bundle[name];
    }
    html.source = text.replace('<!doctype html>', `<!doctype html>\n<!-- wattif page, sources ${stamp()} -->`);
    html.fileName = 'report.html';
  },
};

export default defineConfig({
  base: './',
  plugins: [inline],
  build: {
    outDir: 'dist',
    emptyOutDir: false,
    assetsInlineLimit: 1 << 20,
    cssCodeSplit: false,
    modulePreload: { polyfill: false },
    target: 'es2022',
  },
});
