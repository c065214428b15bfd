// Runs TypeScript in Node, of this package and of the web chat: bundled, in a process of its own.
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { build } from 'esbuild'

/**
 * Runs the tests of the current folder, or those whose file has one of `wanted` in its name.
 * All of them are one bundle in one process: to start Node for each file takes longer than the
 * tests. `settings` are those of esbuild, `flags` more of Node.
 */
export async function test(wanted, outfile, settings, flags = []) {
  const some = wanted.filter((part) => !part.startsWith('-'))
  const without = wanted.filter((part) => part.startsWith('-')).map((part) => part.slice(1))
  const files = ['src', 'test']
    .flatMap((folder) => readdirSync(folder, { recursive: true }).map((file) => `./${folder}/${file}`))
    .filter((file) => /\.test\.tsx?$/.test(file) && !without.some((part) => file.includes(part)) && (some.length === 0 || some.some((part) => file.includes(part))))
    .sort()
  if (files.length === 0) throw new Error(`no test file has ${wanted.join(' or ')} in its name`)
  const contents = files.map((file) => `import ${JSON.stringify(file)}`).join('\n')
  return run({ stdin: { contents, resolveDir: '.' }, outfile, ignoreAnnotations: true, ...settings }, ['--expose-gc', '--test-force-exit', ...flags]) // tests are their side effects
}

/** Bundles as `settings` say, and runs that with flags of Node. Returns the exit status. */
export async function run(settings, flags = [], args = []) {
  await build({ bundle: true, format: 'esm', platform: 'node', target: 'node20', sourcemap: 'inline', jsx: 'automatic', logLevel: 'warning', ...settings })
  const env = { PETREL_PROGRAM: path.resolve(import.meta.dirname, '../../../build/bin/petrel'), ...process.env }
  const { status } = spawnSync(process.execPath, ['--enable-source-maps', ...flags, settings.outfile, ...args], { stdio: 'inherit', env })
  return status ?? 1
}
