// Builds the pages into internal/web/dist, or into the folder of the first argument: the chat, <petrel-chat> in
// embed/, and the console of operators in admin/. <petrel-chat> is also copied to embed/dist, the package for other
// applications.
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { createHash } from 'node:crypto'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { build } from 'vite'

const web = path.resolve(import.meta.dirname, '..')
const out = path.resolve(process.argv[2] ?? path.join(web, '..', 'internal', 'web', 'dist'))
const smallestPacked = 1024 // bytes; smaller files are not compressed, because they fit into one packet anyway

rmSync(out, { recursive: true, force: true })
await build({ configFile: path.join(web, 'vite.config.ts'), logLevel: 'warn', build: { outDir: out } })
await build({ configFile: path.join(web, 'vite.embed.config.ts'), logLevel: 'warn', build: { outDir: path.join(out, 'embed') } })
await build({ configFile: path.join(web, 'vite.console.config.ts'), logLevel: 'warn', build: { outDir: path.join(out, 'admin') } })
rmSync(path.join(web, 'embed', 'dist'), { recursive: true, force: true })
cpSync(path.join(out, 'embed'), path.join(web, 'embed', 'dist'), { recursive: true })

const files = readdirSync(out, { recursive: true, withFileTypes: true }).filter((f) => f.isFile()).map((f) => path.relative(out, path.join(f.parentPath, f.name))).sort()

// The service worker gets the list of files that the page needs at its start, and a version that changes with each
// build of the page.
const worker = path.join(out, 'sw.js')
const ofPage = files.filter((f) => !f.startsWith(`embed${path.sep}`) && !f.startsWith(`admin${path.sep}`))
const kept = ['/', ...ofPage.filter((f) => f !== 'sw.js' && f !== 'index.html').map((f) => `/${f}`)]
const version = createHash('sha256')
for (const f of ofPage) version.update(f).update(readFileSync(path.join(out, f)))
writeFileSync(worker, readFileSync(worker, 'utf8').replace("'{{version}}'", JSON.stringify(version.digest('hex').slice(0, 16))).replace("['{{files}}']", JSON.stringify(kept)))

for (const f of files.filter((name) => name !== 'index.html' && /\.(js|css|svg|webmanifest)$/.test(name) && statSync(path.join(out, name)).size >= smallestPacked)) {
  const content = readFileSync(path.join(out, f))
  writeFileSync(path.join(out, `${f}.br`), brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY, [constants.BROTLI_PARAM_SIZE_HINT]: content.length } }))
  writeFileSync(path.join(out, `${f}.gz`), gzipSync(content, { level: 9 }))
}
