// Runs the tests, or those whose file has one of the arguments in its name; `-NAME` leaves out those with NAME. Those in a browser
// use what internal/web/dist has: run `make web` before.
import path from 'node:path'
import { test } from '../../sdk/ts/scripts/bundle.mjs'
import { bundled } from './bundled.mjs'

process.chdir(path.resolve(import.meta.dirname, '..'))
const flags = ['--experimental-websocket'] // Node 20 shows its WebSocket only if asked
process.exit(await test(process.argv.slice(2), 'node_modules/.cache/test/all.mjs', { ...bundled, loader: { '.css': 'empty' } }, flags))
