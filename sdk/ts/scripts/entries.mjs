// The entries of the package, and what an application brings along for them.
import { build } from 'esbuild'
import { rmSync, writeFileSync } from 'node:fs'

export const entries = ['index', 'contacts', 'filestores', 'history', 'profiles', 'protobuf', 'react', 'testing']
export const external = ['@bufbuild/*', 'react', 'ws', 'node:*']

/** Builds the same source as ES modules and as CommonJS into dist/. */
export async function buildModules() {
  const options = {
    entryPoints: entries.map((name) => `src/${name}.ts`), external, bundle: true, sourcemap: true, target: 'es2022', platform: 'neutral', logLevel: 'warning',
  }
  for (const kind of ['esm', 'cjs']) rmSync(`dist/${kind}`, { recursive: true, force: true })
  await Promise.all([
    build({ ...options, format: 'esm', outdir: 'dist/esm', splitting: true }),
    build({ ...options, format: 'cjs', outdir: 'dist/cjs' }),
  ])
  writeFileSync('dist/cjs/package.json', '{"type":"commonjs"}\n') // the package's is "module"
}
