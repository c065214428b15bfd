// Builds dist/: the modules, and the types of both kinds.
import { execFileSync } from 'node:child_process'
import { cpSync } from 'node:fs'
import { buildModules } from './entries.mjs'

await buildModules()
execFileSync('node_modules/.bin/tsc', ['-p', 'tsconfig.build.json'], { stdio: 'inherit' })
cpSync('dist/esm', 'dist/cjs', { recursive: true, filter: (file) => !/\.(js|map)$/.test(file) })
