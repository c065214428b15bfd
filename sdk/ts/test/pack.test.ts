// The package as an application gets it: packed, installed into a folder of its own, and used from outside.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'

const uses = `
const client: Client = new Client({ url: 'ws://a', token: () => 't', store: browserStore('acme/alice') })
export async function use(): Promise<string> {
  const { seq }: Outgoing = await (await client.send({ user: 'bob', text: 'hi' })).wait()
  const { devices = [] } = await client.call('petrel.v1.AccountService/ListDevices', {}, { timeoutMs: 1000 })
  // @ts-expect-error there is no such field
  await client.call('petrel.v1.AccountService/GetUser', { name: 'bob' })
  // @ts-expect-error there is no such method
  client.sendd({})
  for await (const change of client.changes()) if (change.pending) return String(seq) + String(devices[0]?.id)
  return isPetrelError(0) ? version : ''
}
`
const imports = `import { browserStore, Client, isPetrelError, type Outgoing, version } from '@petrel-im/sdk'\n`

/** The application around the pieces of code in the guide. */
const application = `import type { Client as C, Conversation, Message, Outgoing } from '@petrel-im/sdk'
declare global {
  const client: C, conv: string, device: string, password: string, token: string
  function showList(all: readonly Conversation[]): void
  function showMessages(all: readonly Message[], pending: readonly Outgoing[]): void
}
`

/** The pieces of code in the guide, as modules, by the names of files. */
function pieces(): ReadonlyMap<string, string> {
  const guide = readFileSync('../../docs/guide/typescript.md', 'utf8')
  const found = [...guide.matchAll(/```(js|tsx)\n([^]*?)```/g)].map(([, kind = '', text = ''], i) => [`guide${i}.${kind.replace('js', 'ts')}`, `${text}export {}\n`] as const)
  assert.equal(found.length, 7)
  return new Map(found)
}

describe('the package', { timeout: 300_000 }, () => {
  test('it is imported, required, and has types for both, without a window; the code in the guide fits them', () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'petrel-pack-'))
    const run = (command: string, ...args: string[]): string => {
      try {
        return execFileSync(command, args, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
      } catch (why) {
        const { stdout, stderr } = why as { stdout: string; stderr: string }
        throw new Error(`${command} ${args.join(' ')}:\n${stdout}${stderr}`)
      }
    }
    const file = (name: string, text: string): void => writeFileSync(path.join(folder, name), text)
    execFileSync(process.execPath, ['scripts/build.mjs'], { stdio: 'inherit' })
    const [packed] = JSON.parse(execFileSync('npm', ['pack', '--json', '--pack-destination', folder], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })) as [{ filename: string; files: { path: string }[] }]
    assert.deepEqual(packed.files.filter((f) => !/^(dist\/(esm|cjs)\/|README\.md$|package\.json$)|^LICENSE$/.test(f.path)), [])
    assert.deepEqual(packed.files.filter((f) => /test(?!ing\.)|bench/.test(f.path)), [])
    file('package.json', '{"private":true}')
    run('npm', 'install', '--offline', '--no-audit', '--no-fund', '--omit=peer', path.join(folder, packed.filename))

    file('a.mjs', `${imports.replace('type Outgoing, ', '')}import { fileStore } from '@petrel-im/sdk/node'\nconsole.log(typeof Client, typeof fileStore, typeof window, version, isPetrelError({}), typeof browserStore('a'))`)
    file('a.cjs', `const { Client, version, isPetrelError, browserStore } = require('@petrel-im/sdk')\nconst { fileStore } = require('@petrel-im/sdk/node')\nconsole.log(typeof Client, typeof fileStore, typeof window, version, isPetrelError({}), typeof browserStore('a'))`)
    for (const name of ['a.mjs', 'a.cjs']) assert.match(run(process.execPath, name), /^function function undefined petrel-ts\/\S+ false object\n$/)

    file('fake.mjs', `import { Client } from '@petrel-im/sdk'\nimport { TestServer } from '@petrel-im/sdk/testing'\nconst client = new Client({ url: 'ws://test', token: 'alice', transport: new TestServer() })\nconsole.log(await client.while(async () => (await (await client.send({ user: 'bob', text: 'hi' })).wait()).seq))`)
    assert.equal(run(process.execPath, 'fake.mjs'), '1\n')

    mkdirSync(path.join(folder, 'node_modules/@types'), { recursive: true })
    for (const types of ['node', 'react']) symlinkSync(path.resolve('node_modules/@types', types), path.join(folder, 'node_modules/@types', types))
    for (const extra of ['react', 'csstype', 'undici-types', '@bufbuild']) symlinkSync(path.resolve('node_modules', extra), path.join(folder, 'node_modules', extra))
    const entries = `import { useHistory, useMessages, usePendingTo } from '@petrel-im/sdk/react'\nimport { TestServer } from '@petrel-im/sdk/testing'\nimport { protobuf } from '@petrel-im/sdk/protobuf'\nimport { fileStore } from '@petrel-im/sdk/node'\nexport const all = [useHistory, useMessages, usePendingTo, TestServer, protobuf, fileStore]\n`
    file('esm.mts', imports + entries + uses)
    file('cjs.cts', imports + entries + uses)
    file('bundled.ts', imports + entries + uses)
    const tsc = path.resolve('node_modules/.bin/tsc')
    const strict = ['--noEmit', '--strict', '--exactOptionalPropertyTypes', '--target', 'es2022', '--types', 'node']
    run(tsc, ...strict, '--module', 'node16', '--moduleResolution', 'node16', '--lib', 'es2022,dom', 'esm.mts', 'cjs.cts')
    file('application.ts', application)
    const guide = pieces()
    for (const [name, text] of guide) file(name, text)
    run(tsc, ...strict, '--module', 'esnext', '--moduleResolution', 'bundler', '--lib', 'es2022,dom', '--jsx', 'react-jsx', 'bundled.ts', 'application.ts', ...guide.keys())
    rmSync(folder, { recursive: true })
  })
})

/** The names that an application can import from the entries of the package. */
function exported(): ReadonlySet<string> {
  const entries = ['contacts', 'filestores', 'history', 'index', 'profiles', 'protobuf', 'react', 'testing'].map((name) => readFileSync(`src/${name}.ts`, 'utf8'))
  const lists = entries.flatMap((text) => [...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, names = '']) => names.split(',')))
  return new Set([...lists.map((name) => name.trim()), ...entries.flatMap((text) => [...text.matchAll(/^export interface (\w+)/gm)].map(([, name = '']) => name))])
}

test('what is said of a field reaches the editor: types that the package exports have no comment that the compiler drops', () => {
  const names = exported()
  const dropped: string[] = []
  let seen = 0
  for (const file of readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((name) => /(?<!_gen|\.test)\.ts$/.test(name))) {
    for (const [, name = '', body = ''] of readFileSync(path.join('src', file), 'utf8').matchAll(/^export interface (\w+).*\{\n([^]*?)^\}/gm)) {
      if (!names.has(name)) continue
      seen++
      dropped.push(...body.split('\n').filter((line) => /^ {2}\w.* \/\/ /.test(line)).map((line) => `${file}: ${name}: ${line.trim()}`))
    }
  }
  assert.ok(seen > 50, `${seen} types`)
  assert.deepEqual(dropped, [])
})
