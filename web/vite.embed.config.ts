// <petrel-chat>, with everything that it needs. The style sheets of the chat become one sheet for a shadow tree.
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { transform } from 'esbuild'
import { defineConfig, type Plugin } from 'vite'
import page from './vite.config.js'

const prefix = '\0element-style:'

/**
 * What a style sheet of the page says, for an element in a page of somebody else. There is
 * no :root and no body; widths are those of the element and not of the window; a rem is not
 * that of the page, whose authors may have made it any size; and each token can be set from
 * outside as --petrel-NAME. Menus and dialogs are over the page and keep the sizes of the window.
 */
export function forElement(css: string, file: string): string {
  const name = path.basename(file)
  let out = css.replace(/(\d*\.?\d+)rem\b/g, 'calc($1 * var(--rem))')
  if (name === 'tokens.css') {
    out = out.replace(/:root \{[^}]*\}/, (tokens) => tokens.replace(/--([\w-]+): ([^;]+);/g, '--$1: var(--petrel-$1, $2);').replace('color-scheme: light dark;', ''))
      .replace('html, body, #root { height: 100%; margin: 0; }', '')
      .replace(/\bbody \{/g, '.petrel {')
      .replaceAll(':root', '.petrel')
  }
  if (name !== 'overlays.css') {
    out = out.replace(/@media ((?:\((?:min|max)-width: \d+px\)(?: and )?)+)/g, '@container petrel $1').replace(/(\d)dvh\b/g, '$1cqh').replace(/(\d)vw\b/g, '$1cqw')
  }
  return out
}

function elementStyles(): Plugin {
  return {
    name: 'element-styles', enforce: 'pre',
    async resolveId(source, importer) {
      if (!source.endsWith('.css') || !importer) return undefined
      return `${prefix}${path.resolve(path.dirname(importer), source)}.js` // so that nothing else takes it for a style sheet
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
    lib: { entry: 'src/embed/index.ts', formats: ['es'] }, // as a library it gets no code that loads style sheets
    rollupOptions: { output: { entryFileNames: 'petrel-chat.js', chunkFileNames: 'assets/[name]-[hash].js', minify: true } },
  },
})
