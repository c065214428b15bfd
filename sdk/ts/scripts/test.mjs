// Runs the tests, or those whose file has one of the arguments in its name. All of them
// are one bundle in one process: to start Node for each file takes longer than the tests.
import { build } from 'esbuild'
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { buildModules, external } from './entries.mjs'

const wanted = process.argv.slice(2)
const files = ['src', 'test']
  .flatMap((folder) => readdirSync(folder, { recursive: true }).map((file) => `./${folder}/${file}`))
  .filter((file) => /\.test\.tsx?$/.test(file) && (wanted.length === 0 || wanted.some((part) => file.includes(part))))
  .sort()
if (files.length === 0) throw new Error(`no test file has ${wanted.join(' or ')} in its name`)
await buildModules() // which the examples use
await build({
  stdin: { contents: files.map((file) => `import ${JSON.stringify(file)}`).join('\n'), resolveDir: '.' },
  external: [...external, 'esbuild', 'playwright-core', 'react-dom/*', 'react/*', 'fake-indexeddb'],
  ignoreAnnotations: true, // tests are their side effects
  bundle: true, format: 'esm', platform: 'node', target: 'node20', sourcemap: 'inline', jsx: 'automatic', logLevel: 'warning', outfile: 'dist/test/all.mjs',
})
const { status } = spawnSync(process.execPath, ['--enable-source-maps', '--expose-gc', '--test-force-exit', 'dist/test/all.mjs'], { stdio: 'inherit' })
process.exit(status ?? 1)
