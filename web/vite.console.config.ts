// The console of operators. It is served from another origin than the chat, so they share no files.
import path from 'node:path'
import { defineConfig } from 'vite'
import page from './vite.config.js'

export default defineConfig({
  root: path.join(import.meta.dirname, 'console'),
  base: '/admin/', publicDir: false,
  resolve: page.resolve ?? {},
  build: { ...page.build, outDir: path.join(import.meta.dirname, '../internal/web/dist/admin'), rollupOptions: { input: path.join(import.meta.dirname, 'console/index.html') } },
})
