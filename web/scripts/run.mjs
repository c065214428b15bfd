// Bundles a TypeScript file with its imports and runs it: `node scripts/run.mjs test/shots.ts ARGS`.
import path from 'node:path'
import { run } from '../../sdk/ts/scripts/bundle.mjs'
import { bundled } from './bundled.mjs'

const [file = '', ...args] = process.argv.slice(2)
process.chdir(path.resolve(import.meta.dirname, '..'))
process.exit(await run({ ...bundled, entryPoints: [file], outfile: `node_modules/.cache/run/${path.basename(file, '.ts')}.mjs` }, [], args))
