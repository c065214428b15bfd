// Measures the core and the whole client: `node --expose-gc bench/core.mjs [messages]`, and with
// --chromium in a page besides. They receive messages as frames of JSON; the program prints the
// time of each, the memory at the end, and the size of the core.
import { build } from 'esbuild'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { gzipSync } from 'node:zlib'

const messages = Number(process.argv.find((a) => /^\d+$/.test(a)) ?? 100_000)
const [small] = (await build({ entryPoints: ['src/core/index.ts'], bundle: true, format: 'esm', target: 'es2022', minify: true, write: false })).outputFiles
console.log(`core: ${(small.contents.length / 1000).toFixed(1)} kB minified, ${(gzipSync(small.contents, { level: 9 }).length / 1000).toFixed(1)} kB gzipped`)

const options = { entryPoints: ['bench/run.mjs'], bundle: true, target: 'es2022', ignoreAnnotations: true }
const out = 'dist/bench/run.mjs'
await build({ ...options, format: 'esm', outfile: out })
const { run, runClient } = await import(new URL(`../${out}`, import.meta.url).href)
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
console.log([`Node ${process.version}, CPU time:`, ...run(messages, clock, heap), ...await runClient(messages, clock, heap, false)].join('\n'))

if (process.argv.includes('--chromium')) {
  const { chromium } = await import('playwright-core')
  const args = ['--no-sandbox', '--disable-gpu', '--enable-precise-memory-info', '--js-flags=--expose-gc']
  const browser = await chromium.launch({ executablePath: process.env.PETREL_CHROMIUM ?? '/usr/bin/chromium-headless-shell', args })
  const origin = createServer((_, response) => response.end('<!doctype html><title>bench</title>')).listen(0, '127.0.0.1') // a database belongs to one
  await once(origin, 'listening')
  const page = await browser.newPage()
  await page.goto(`http://127.0.0.1:${origin.address().port}`)
  await page.addScriptTag({ content: (await build({ ...options, format: 'iife', globalName: 'bench', write: false })).outputFiles[0].text })
  const lines = await page.evaluate(async (n) => {
    const clock = () => performance.now()
    const heap = () => {
      gc()
      return performance.memory.usedJSHeapSize
    }
    return [...bench.run(n, clock, heap), ...await bench.runClient(n, clock, heap, true)]
  }, messages)
  console.log([`Chromium ${browser.version()}, time:`, ...lines].join('\n'))
  await browser.close()
  origin.close()
}
