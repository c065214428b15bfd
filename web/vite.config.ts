import { defineConfig, type Plugin } from 'vite'
import { emojiModule, emojiPrefix } from './emojiModule.js'

/**
 * Provides the emoji modules, which the page loads when the person opens the choice of emojis or types the name of
 * one.
 */
function emoji(): Plugin {
  return {
    name: 'emoji',
    resolveId: (id) => id.startsWith(emojiPrefix) ? `\0${id}` : undefined,
    load: (id) => id.startsWith(`\0${emojiPrefix}`) ? emojiModule(import.meta.dirname, id.slice(emojiPrefix.length + 1)) : undefined,
  }
}

// The SDK is bundled from its source, so it need not be built first. There is only one copy of React, that of this
// package: with two copies, contexts of one are unknown to the other.
export default defineConfig({
  root: import.meta.dirname,
  plugins: [emoji()],
  resolve: { conditions: ['petrel-source', 'module', 'browser'], dedupe: ['react', 'react-dom'] },
  build: {
    outDir: '../internal/web/dist', emptyOutDir: true, target: 'es2022', modulePreload: { polyfill: false }, assetsInlineLimit: 0, reportCompressedSize: false,
    rollupOptions: { input: { index: 'index.html' } },
  },
})
