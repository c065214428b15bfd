// What the core costs: `node --expose-gc bench/core.mjs [messages]`, and with --chromium in a
// page besides. It receives messages as frames of JSON, and prints the time of each, the
// memory at the end, and the size of the core.
import { build } from 'esbuild'
import { rmSync } from 'node:fs'
import { gzipSync } from 'node:zlib'

const messages = Number(process.argv.find((a) => /^\d+$/.test(a)) ?? 100_000)
const [small] = (await build({ entryPoints: ['src/core/index.ts'], bundle: true, format: 'esm', target: 'es2022', minify: true, write: false })).outputFiles
console.log(`core: ${(small.contents.length / 1000).toFixed(1)} kB minified, ${(gzipSync(small.contents, { level: 9 }).length / 1000).toFixed(1)} kB gzipped`)

const options = { entryPoints: ['bench/run.mjs'], bundle: true, target: 'es2022', ignoreAnnotations: true }
const out = 'dist/bench/run.mjs'
await build({ ...options, format: 'esm', outfile: out })
const { run } = await import(new URL(`../${out}`, import.meta.url).href)
rmSync(out)

/** CPU time of this process: what others do on the machine does not count. */
const clock = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
const heap = () => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed
}
console.log([`Node ${process.version}, CPU time:`, ...run(messages, clock, heap)].join('\n'))

if (process.argv.includes('--chromium')) {
  const { chromium } = await import('playwright-core')
  const args = ['--no-sandbox', '--disable-gpu', '--enable-precise-memory-info', '--js-flags=--expose-gc']
  const browser = await chromium.launch({ executablePath: process.env.PETREL_CHROMIUM ?? '/usr/bin/chromium', args })
  const page = await browser.newPage()
  await page.addScriptTag({ content: (await build({ ...options, format: 'iife', globalName: 'bench', write: false })).outputFiles[0].text })
  const lines = await page.evaluate((n) => bench.run(n, () => performance.now(), () => {
    gc()
    return performance.memory.usedJSHeapSize
  }), messages)
  console.log([`Chromium ${browser.version()}, time:`, ...lines].join('\n'))
  await browser.close()
}
