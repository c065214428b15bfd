import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const limit = 30_200 // bytes, gzipped, of the files that a page loads before it shows anything

test('a page loads at most 30.2 kB for the SDK with its database and its tabs', async (t) => {
  const { outputFiles } = await build({
    stdin: { contents: "export { Client, browserStore } from './src/index.ts'", resolveDir: '.' },
    bundle: true, minify: true, write: false, format: 'esm', platform: 'browser', target: 'es2022',
  })
  const bytes = gzipSync(outputFiles[0]?.contents ?? '', { level: 9 }).length
  t.diagnostic(`${bytes} bytes`)
  assert.ok(bytes > 0 && bytes <= limit, `${bytes} bytes, more than ${limit}`)
})
