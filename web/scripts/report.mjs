// Builds the page of `petrel bench --html` into one file: bench/page/page.html, or the file of the first argument.
// The page loads nothing else, so it can be sent and kept.
import { writeFileSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { build } from 'vite'

const web = path.resolve(import.meta.dirname, '..')
const out = path.resolve(process.argv[2] ?? path.join(web, '..', 'bench', 'page', 'page.html'))

const { output } = (await build({
  configFile: false, root: web, logLevel: 'warn', publicDir: false,
  build: { write: false, target: 'es2022', reportCompressedSize: false, cssCodeSplit: false, lib: { entry: path.join(web, 'report/main.ts'), formats: ['iife'], name: 'report' } },
}))[0]
const script = output.find((f) => f.type === 'chunk').code.trim()
const styles = output.find((f) => f.fileName.endsWith('.css')).source.trim()
if (/<\/script/i.test(script) || /<\/style/i.test(styles)) throw new Error('the script or the styles would end their own element')
const page = readFileSync(path.join(web, 'report/index.html'), 'utf8')
  .replace('<!--styles-->', () => `<style>${styles}</style>`).replace('<!--script-->', () => `<script>${script}</script>`)
writeFileSync(out, page)
