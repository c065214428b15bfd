import { readFileSync } from 'node:fs'
import { defineConfig, type Plugin } from 'vite'

const newestEmoji = 15.1 // of 2023: the fonts of many people do not have later ones, which are empty cells there

/** The emojis with their names in a language, with nothing else of the data about them. Components of flags and skins have no group. */
function emoji(): Plugin {
  const name = 'virtual:emoji/'
  const read = <T>(file: string): T => JSON.parse(readFileSync(`${import.meta.dirname}/node_modules/emojibase-data/${file}.json`, 'utf8')) as T
  const tooNew = new Set(read<{ hexcode: string; version: number }[]>('en/data').filter((e) => e.version > newestEmoji).map((e) => e.hexcode))
  return {
    name: 'emoji',
    resolveId: (id) => id.startsWith(name) ? `\0${id}` : undefined,
    load(id) {
      if (!id.startsWith(`\0${name}`)) return undefined
      const all = read<{ unicode: string; hexcode: string; label: string; tags?: string[]; group?: number; order?: number }[]>(`${id.slice(name.length + 1)}/compact`)
      const packed = all.filter((e) => e.group !== undefined && e.group !== 2 && !tooNew.has(e.hexcode)).sort((a, b) => (a.order ?? 0) - (b.order ?? 0)).map((e) => [e.unicode, e.label, (e.tags ?? []).join(' '), e.group])
      return `export default JSON.parse(${JSON.stringify(JSON.stringify(packed))})`
    },
  }
}

// The SDK is compiled from its source, so that a build needs no build before it. React is the
// one of this package: two of them in a page do not see each other's contexts.
export default defineConfig({
  root: import.meta.dirname,
  plugins: [emoji()],
  resolve: { conditions: ['petrel-source', 'module', 'browser'], dedupe: ['react', 'react-dom'] },
  build: {
    outDir: '../internal/web/dist', emptyOutDir: true, target: 'es2022', modulePreload: { polyfill: false }, assetsInlineLimit: 0, reportCompressedSize: false,
    rollupOptions: { input: { index: 'index.html' } },
  },
})
