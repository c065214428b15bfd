import { readFileSync } from 'node:fs'
import { defineConfig, type Plugin } from 'vite'

/** The emojis with their names in a language, with nothing else of the data about them. Components of flags and skins have no group. */
function emoji(): Plugin {
  const name = 'virtual:emoji/'
  return {
    name: 'emoji',
    resolveId: (id) => id.startsWith(name) ? `\0${id}` : undefined,
    load(id) {
      if (!id.startsWith(`\0${name}`)) return undefined
      const all = JSON.parse(readFileSync(`${import.meta.dirname}/node_modules/emojibase-data/${id.slice(name.length + 1)}/compact.json`, 'utf8')) as { unicode: string; label: string; tags?: string[]; group?: number; order?: number }[]
      const packed = all.filter((e) => e.group !== undefined && e.group !== 2).sort((a, b) => (a.order ?? 0) - (b.order ?? 0)).map((e) => [e.unicode, e.label, (e.tags ?? []).join(' '), e.group])
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
