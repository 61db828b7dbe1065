// Packs the simulator for the page: pack.js FROM TO.
import { readFileSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const [, , from, to] = process.argv;
writeFileSync(to, gzipSync(readFileSync(from), { level: 9 }));
