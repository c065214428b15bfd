// Plants faults in the SDK, one at a time, and walks: `node scripts/planted.mjs [first fault [faults]]`.
// For each it prints a row of the table in docs/benchmarks/walks.md: ten short walks, and ten of 4,000 steps if none of these fails.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { build } from 'esbuild'

const { planted } = await import(`data:text/javascript;base64,${Buffer.from((await build({ entryPoints: ['test/planted.ts'], write: false, format: 'esm' })).outputFiles[0].contents).toString('base64')}`)
const [first = 0, faults = planted.length] = process.argv.slice(2).map(Number)
for (const fault of planted.slice(first, first + faults)) {
  const outfile = `dist/test/planted-${process.pid}.mjs`
  await build({
    entryPoints: ['test/long_walks.ts'], packages: 'external', outfile, bundle: true, format: 'esm', platform: 'node', target: 'node20', logLevel: 'warning',
    plugins: [{
      name: 'plant',
      setup: (b) => b.onLoad({ filter: /\/src\/.*\.ts$/ }, ({ path: file }) => {
        if (path.relative('src', file) !== fault.file) return undefined
        const parts = readFileSync(file, 'utf8').split(fault.old)
        if (parts.length !== 2) throw new Error(`${fault.file} has ${parts.length - 1} times: ${fault.old}`)
        return { contents: parts.join(fault.new), loader: 'ts' }
      }),
    }],
  })
  let errors = []
  let walked = 0
  for (const steps of [500, 4000]) {
    if (errors.length > 0) break
    const { stdout } = spawnSync(process.execPath, [outfile, '1', '10', String(steps)], { encoding: 'utf8', timeout: 300_000, env: { PETREL_PROGRAM: '../../build/bin/petrel', ...process.env } })
    errors = [...stdout.matchAll(/^# seed (\d+), step (\d+): (.*)$/gm)]
    walked = steps
  }
  console.log(`| ${fault.what} | ${walked} | ${errors.length === 0 ? 'none' : errors.length === 10 ? 'all' : errors.map((e) => e[1]).join(', ')} |`)
  if (process.env['PETREL_SHOW']) for (const e of errors) console.log(`    ${e[0].slice(0, 300)}`)
}
