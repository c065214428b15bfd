// Runs a TypeScript file with what it imports: `node scripts/run.mjs test/shots.ts ARGS`.
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { build } from 'esbuild'

const [file = '', ...args] = process.argv.slice(2)
process.chdir(path.resolve(import.meta.dirname, '..'))
const out = `node_modules/.cache/run/${path.basename(file, '.ts')}.mjs`
await build({ entryPoints: [file], outfile: out, external: ['playwright-core', 'axe-core'], conditions: ['petrel-source'], bundle: true, format: 'esm', platform: 'node', target: 'node20', sourcemap: 'inline', logLevel: 'warning' })
const { status } = spawnSync(process.execPath, ['--enable-source-maps', out, ...args], { stdio: 'inherit' })
process.exit(status ?? 1)
