// <petrel-chat>, with all that it needs. The style sheets of the chat are joined to one sheet for a shadow tree.
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { transform } from 'esbuild'
import { defineConfig, type Plugin } from 'vite'
import { forElement } from './elementStyles.js'
import page from './vite.config.js'

const prefix = '\0element-style:'

function elementStyles(): Plugin {
  return {
    name: 'element-styles', enforce: 'pre',
    async resolveId(source, importer) {
      if (!source.endsWith('.css') || !importer) return undefined
      return `${prefix}${path.resolve(path.dirname(importer), source)}.js` // the suffix keeps other plugins from taking it for a style sheet
    },
    async load(id) {
      if (!id.startsWith(prefix)) return undefined
      const file = id.slice(prefix.length, -'.js'.length)
      const { code } = await transform(forElement(readFileSync(file, 'utf8'), file), { loader: 'css', minify: true })
      return `import { addStyles } from ${JSON.stringify(path.join(import.meta.dirname, 'src/embed/styles.ts'))}\naddStyles(${JSON.stringify(code)})`
    },
  }
}

export default defineConfig({
  ...page,
  plugins: [...page.plugins ?? [], elementStyles()],
  base: './', publicDir: false, define: { 'process.env.NODE_ENV': '"production"' },
  build: {
    ...page.build, outDir: 'embed/dist', modulePreload: false,
    lib: { entry: 'src/embed/index.ts', formats: ['es'] }, // a library gets no code that loads style sheets
    rollupOptions: { output: { entryFileNames: 'petrel-chat.js', chunkFileNames: 'assets/[name]-[hash].js', minify: true } },
  },
})
