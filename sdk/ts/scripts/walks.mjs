// Long walks: `node scripts/walks.mjs [first seed [seeds [steps]]]`. They are a program of
// their own, because the hooks of the test runner cost a good part of the CPU.
import { run } from './bundle.mjs'

process.exit(await run({ entryPoints: ['test/long_walks.ts'], packages: 'external', outfile: 'dist/test/walks.mjs' }, ['--max-semi-space-size=64'], process.argv.slice(2)))
