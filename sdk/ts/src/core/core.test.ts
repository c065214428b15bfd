import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { describe, test } from 'node:test'

const folder = 'src/core'

/** The sources, without comments and without texts that are not imported. */
const sources = readdirSync(folder).filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts')).map((file) => ({
  file,
  code: readFileSync(`${folder}/${file}`, 'utf8').replace(/\/\*[^]*?\*\/|\/\/.*/g, '').replace(/'[^'\n]*'/g, (quoted) => (quoted.startsWith("'.") ? quoted : "''")),
}))

/** The files that change a part of the state: `v` is a conversation. Others call their functions. */
const owners: Readonly<Record<string, string>> = {
  cursors: 'cursor cursormoves',
  incoming: 'handover incomingposition loadrows',
  lossy: 'signals',
  mentions: 'cursor cursormoves loadrows mention',
  outbox: 'handover outbox send sendlane',
  pulse: 'heartbeat reconnect request',
  quotes: 'quote',
  reach: 'heartbeat reconnect',
  shown: 'conversation snapshot',
  store: 'handover loadrows rows',
  unread: 'unread',
  v: 'conversation entries loadrows note olderpages repair sync window',
  views: 'conversation quote snapshot',
}

function offences(find: (code: string) => readonly (string | undefined)[]): string[] {
  return sources.flatMap(({ file, code }) => find(code).map((what) => `${file}: ${what}`))
}

// tsconfig.core.json checks this folder without the types of browsers and of Node. Only
// those of the language itself are left.
describe('the core is only a state machine', () => {
  test('it has no clock, no randomness, no timers and nothing that waits', () => {
    const platform = /\b(Date|Math\.random|Intl|Promise|async|await|setTimeout|setInterval|queueMicrotask|fetch|crypto|performance|globalThis)\b/g
    assert.deepEqual(offences((code) => code.match(platform) ?? []), [])
  })
  test('it imports itself, and the types of the wire', () => {
    const imports = /^(import(?: type)?|export(?: type)?)[^'\n]*?(?:\{[^}]*\})?[^'\n]* from '([^']+)'/gm
    const foreign = (code: string): (string | undefined)[] => [...code.matchAll(imports)]
      .filter(([, how = '', from = '']) => !/^\.\/\w+\.js$/.test(from) && !(from === '../wire/frames_gen.js' && how.endsWith(' type'))).map(([, , from]) => from)
    assert.deepEqual(offences(foreign), [])
  })
  for (const [part, files] of Object.entries(owners)) {
    test(`${part} is changed by ${files}`, () => {
      const writes = '( ([-+*/]|\\|\\||\\?\\?|&&)?= |\\+\\+|--|\\.(set|add|delete|clear|push|splice)\\()'
      const change = new RegExp(`\\b${part}\\.\\w+${writes}|= [\\w.]+\\.${part}$`, 'm') // or a short name for it
      const changed = sources.filter(({ code }) => change.test(code)).map(({ file }) => file.replace('.ts', ''))
      assert.deepEqual(changed, files.split(' '))
    })
  }
  test('no module has state', () => {
    assert.deepEqual(offences((code) => code.match(/^(?:export )?(?:let|var) \w+/gm) ?? []), [])
  })
  test('it says nothing with any, and believes nothing with as any', () => {
    assert.deepEqual(offences((code) => code.match(/\bany\b|@ts-\w+|as unknown as/g) ?? []), [])
  })
})
