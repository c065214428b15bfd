// Runs the tests, or those whose file has one of the arguments in its name; `-NAME` leaves out those with NAME.
import { test } from './bundle.mjs'
import { buildModules, external } from './entries.mjs'

await buildModules() // which the examples use
process.exit(await test(process.argv.slice(2), 'dist/test/all.mjs', { external: [...external, 'esbuild', 'playwright-core', 'react-dom/*', 'react/*', 'fake-indexeddb'] }))
