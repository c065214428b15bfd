// Runs a TypeScript file in Node: `node scripts/run.mjs FILE [arguments]`.
import { build } from 'esbuild'
import { rmSync } from 'node:fs'
import { external } from './entries.mjs'

const [, , file] = process.argv
const outfile = `dist/run/${process.pid}.mjs` // in this folder, where the packages are found
await build({ entryPoints: [file], external, bundle: true, format: 'esm', platform: 'node', target: 'node20', sourcemap: 'inline', logLevel: 'warning', outfile })
await import(new URL(`../${outfile}`, import.meta.url).href).finally(() => rmSync(outfile))
