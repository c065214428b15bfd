// Checks the types: the core without a browser and without Node, then everything.
import { spawnSync } from 'node:child_process'

const failed = ['tsconfig.core.json', 'tsconfig.json'].filter((config) => spawnSync('node_modules/.bin/tsc', ['-p', config], { stdio: 'inherit' }).status !== 0)
process.exit(failed.length)
