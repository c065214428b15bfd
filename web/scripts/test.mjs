// Runs the tests, or only the files with one of the arguments in their names; `-NAME` leaves out files with NAME.
// Tests in a browser use internal/web/dist, so run `make web` before.
import path from 'node:path'
import { test } from '../../sdk/ts/scripts/bundle.mjs'
import { bundled } from './bundled.mjs'

process.chdir(path.resolve(import.meta.dirname, '..'))
const flags = ['--experimental-websocket'] // Node 20 shows its WebSocket only if asked
process.exit(await test(process.argv.slice(2), 'node_modules/.cache/test/all.mjs', { ...bundled, loader: { '.css': 'empty' } }, flags))
