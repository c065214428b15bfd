import { defineConfig, type Plugin } from 'vite'
import { emojiModule, emojiPrefix } from './emojiModule.js'

/** The emojis, which are loaded when somebody wants one. */
function emoji(): Plugin {
  return {
    name: 'emoji',
    resolveId: (id) => id.startsWith(emojiPrefix) ? `\0${id}` : undefined,
    load: (id) => id.startsWith(`\0${emojiPrefix}`) ? emojiModule(import.meta.dirname, id.slice(emojiPrefix.length + 1)) : undefined,
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
