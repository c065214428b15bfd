// Builds dist/: the same source as ES modules and as CommonJS, and the types of both.
import { build } from 'esbuild'
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, rmSync, writeFileSync } from 'node:fs'
import { entries, external } from './entries.mjs'

rmSync('dist/esm', { recursive: true, force: true })
rmSync('dist/cjs', { recursive: true, force: true })
const entryPoints = entries.map((name) => `src/${name}.ts`).filter((file) => existsSync(file))
const options = { entryPoints, external, bundle: true, sourcemap: true, target: 'es2022', platform: 'neutral', logLevel: 'warning' }
await Promise.all([
  build({ ...options, format: 'esm', outdir: 'dist/esm', splitting: true }),
  build({ ...options, format: 'cjs', outdir: 'dist/cjs' }),
])
execFileSync('node_modules/.bin/tsc', ['-p', 'tsconfig.build.json'], { stdio: 'inherit' })
cpSync('dist/esm', 'dist/cjs', { recursive: true, filter: (file) => !/\.(js|map)$/.test(file) })
writeFileSync("dist/cjs/package.json", '{"type":"commonjs"}\n') // the package's is "module"
