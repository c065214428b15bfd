// Checks that internal/web/dist and bench/page/page.html are what the sources build to. Compressed files are
// compared by content, because other versions of Node compress differently.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'

const committed = path.resolve(import.meta.dirname, '../../internal/web/dist')
const fresh = mkdtempSync(path.join(tmpdir(), 'petrel-web-'))
const { status } = spawnSync(process.execPath, [path.join(import.meta.dirname, 'build.mjs'), fresh], { stdio: 'inherit' })

const read = (folder) => new Map(readdirSync(folder, { recursive: true, withFileTypes: true }).filter((f) => f.isFile()).map((f) => {
  const file = path.join(f.parentPath, f.name)
  const content = readFileSync(file)
  const plain = f.name.endsWith('.br') ? brotliDecompressSync(content) : f.name.endsWith('.gz') ? gunzipSync(content) : content
  return [path.relative(folder, file), plain.toString('base64')]
}))
const [was, is] = [read(committed), read(fresh)]
rmSync(fresh, { recursive: true })
const stale = [...new Set([...was.keys(), ...is.keys()])].filter((name) => was.get(name) !== is.get(name))
for (const name of stale) console.error(`internal/web/dist/${name} is stale: run make web`)

const report = path.join(mkdtempSync(path.join(tmpdir(), 'petrel-report-')), 'page.html')
const built = spawnSync(process.execPath, [path.join(import.meta.dirname, 'report.mjs'), report], { stdio: 'inherit' })
const staleReport = built.status !== 0 || !readFileSync(report).equals(readFileSync(path.resolve(import.meta.dirname, '../../bench/page/page.html')))
if (staleReport) console.error('bench/page/page.html is stale: run make web')
rmSync(path.dirname(report), { recursive: true })
process.exit(status || stale.length > 0 || staleReport ? 1 : 0)
