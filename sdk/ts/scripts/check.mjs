// Checks the types: the core without a browser and without Node, then everything.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'

for (const config of ['tsconfig.core.json', 'tsconfig.json']) {
  if (existsSync(config)) execFileSync('node_modules/.bin/tsc', ['-p', config], { stdio: 'inherit' })
}
