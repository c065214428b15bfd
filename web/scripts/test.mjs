// Runs the tests, or those whose file has one of the arguments in its name, as one bundle in
// one process. Those in a browser use what internal/web/dist has: run `make web` before.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { build } from 'esbuild'

process.chdir(path.resolve(import.meta.dirname, '..'))
const wanted = process.argv.slice(2)
const files = ['src', 'test']
  .flatMap((folder) => readdirSync(folder, { recursive: true }).map((file) => `./${folder}/${file}`))
  .filter((file) => /\.test\.tsx?$/.test(file) && (wanted.length === 0 || wanted.some((part) => file.includes(part))))
  .sort()
if (files.length === 0) throw new Error(`no test file has ${wanted.join(' or ')} in its name`)
await build({
  stdin: { contents: files.map((file) => `import ${JSON.stringify(file)}`).join('\n'), resolveDir: '.' },
  external: ['playwright-core', 'axe-core', 'esbuild'], ignoreAnnotations: true, // tests are their side effects
  conditions: ['petrel-source'], bundle: true, format: 'esm', platform: 'node', target: 'node20', sourcemap: 'inline', jsx: 'automatic', logLevel: 'warning', loader: { '.css': 'empty' },
  outfile: 'node_modules/.cache/test/all.mjs',
})
const { status } = spawnSync(process.execPath, ['--enable-source-maps', '--test-force-exit', 'node_modules/.cache/test/all.mjs'], { stdio: 'inherit' })
process.exit(status ?? 1)
