import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  Auth, browserTokens, Client, type ClientOptions, isPetrelError, memoryStore, memoryTokens, PetrelError, SavedTokens, type Store, systemClock, type Tokens, type TokenStorage, type
  Transport, webSocketTransport,
} from '../src/index.js'
import { protobuf } from '../src/protobuf.js'
import type { ServerFrameJson } from '../src/wire/frames_gen.js'
import { FakeServer, usual } from './fake_server.js'
import { idle, soon, until } from './until.js'

/** Runs f with a connected client of a fake server. */
async function connected(f: (client: Client, server: FakeServer) => Promise<void>, more: Partial<ClientOptions> = {}): Promise<void> {
  const server = new FakeServer()
  const client = new Client({ url: 'ws://a', token: 't', transport: server, ...more })
  const end = client.connect()
  await until(client, () => client.status().synced)
  await f(client, server).finally(async () => {
    end()
    await client.close()
  })
}

const entry = (seq: number, text: string): NonNullable<ServerFrameJson['events']> => ({
  messages: [{ conv: 'g1', seq: String(seq), from: 'bob', clientMsgId: `b${seq}`, timeMs: '1', counted: String(seq), text }],
})

const hasCode = (code: string) => (e: unknown): boolean => isPetrelError(e) && e.code === code

describe('client', { timeout: 300_000 }, () => {
  test('presences and syncs tell the versions of profiles', async () => {
    const server = new FakeServer()
    server.answer = (f) => f.sync ? { sync: { token: 'AQ==', convs: [{ conv: 'd1', kind: 'CONV_KIND_DIRECT', peer: 'bob', peerProfile: 'v1', head: '0' }] } } : usual(f)
    const client = new Client({ url: 'ws://a', token: 't', transport: server })
    client.watch(['bob'], 'g1')
    client.connect()
    await until(client, () => client.status().synced)
    assert.deepEqual(server.got.flatMap((f) => f.watch ?? []), [{ users: ['bob'], conv: 'g1' }])
    assert.ok(server.got[0]?.hello?.capabilities?.includes('profiles'))
    assert.equal(client.conversation('d1')?.peerProfile, 'v1')
    server.push({ events: { presences: [{ user: 'bob', profile: 'v1' }] } })
    const first = client.presence('bob')
    assert.deepEqual(first, { online: false, lastMs: 0, profile: 'v1' })
    server.push({ events: { presences: [{ user: 'bob', profile: 'v1' }] } })
    assert.equal(client.presence('bob'), first)
    server.push({ events: { presences: [{ user: 'bob', profile: 'v2' }] } })
    assert.equal(client.presence('bob')?.profile, 'v2')
    await client.close()
  })

  test('what does not change is the same object', () => connected(async (client, server) => {
    const [all, one, messages, status] = [client.conversations(), client.conversation('g1'), client.messages('g1'), client.status()]
    server.push({ ping: {} })
    client.focus(['g1'])
    assert.equal(client.conversations(), all)
    assert.equal(client.conversation('g1'), one)
    assert.equal(client.messages('g1'), messages)
    assert.equal(client.status(), status)
    server.push({ events: entry(2, 'second') })
    await until(client, () => client.messages('g1').length === 2)
    assert.notEqual(client.messages('g1'), messages)
    assert.equal(client.messages('g1')[0], messages[0])
  }))

  test('a reader that is slow gets one change for many', () => connected(async (client, server) => {
    const changes = client.changes()
    const first = (await changes.next()).value
    assert.ok(first?.list && first.status && first.conversations.has('g1'))
    await client.send({ user: 'zoe', text: 'hello' })
    for (let seq = 2; seq < 50; seq++) server.push({ events: entry(seq, 'x') })
    await until(client, () => client.messages('g1').length === 49)
    const next = (await changes.next()).value
    assert.deepEqual([[...next?.conversations ?? []], next?.pending], [['g1'], true])
    const stop = new AbortController()
    const rest = client.changes(stop.signal)
    await rest.next()
    queueMicrotask(() => stop.abort())
    assert.equal((await rest.next()).done, true)
    await changes.return()
  }))

  test('the error of one listener does not keep a change from the others', () => connected(async (client, server) => {
    const errors: unknown[] = []
    const others = process.listeners('uncaughtException') // the test runner's
    process.removeAllListeners('uncaughtException').on('uncaughtException', (e) => errors.push(e))
    const heard: string[] = []
    const ends = [client.subscribe(() => {
      throw new Error('of a listener')
    }), client.subscribe((c) => heard.push(...c.conversations))]
    await new Promise((resolve) => setImmediate(resolve))
    server.push({ events: entry(2, 'x') })
    await new Promise((resolve) => setImmediate(resolve))
    ends.forEach((end) => end())
    process.removeAllListeners('uncaughtException')
    others.forEach((f) => process.on('uncaughtException', f))
    assert.match(String(errors), /of a listener.*of a listener/)
    assert.deepEqual(heard, ['g1', 'g1'])
  }))

  test('nothing is told, and nothing is sent, before it is stored', async () => {
    const writes: (() => void)[] = []
    const inner = memoryStore()
    const slow: Store = {
      ...inner,
      write: (rows, durable) => new Promise((resolve, reject) => writes.push(() => inner.write(rows, durable).then(resolve, reject))),
    }
    const server = new FakeServer()
    const client = new Client({ url: 'ws://a', token: 't', transport: server, store: slow })
    const end = client.connect()
    const told: boolean[] = []
    client.subscribe((c) => told.push(c.conversations.has('g1')))
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
    while (!server.got.some((f) => f.sync)) {
      writes.shift()?.()
      await turn()
    }
    assert.ok(!told.includes(true))
    const sending = client.send({ conv: 'g1', text: 'hi' })
    await turn()
    assert.ok(!server.got.some((f) => f.send))
    let taken = false
    void sending.then(() => {
      taken = true
    })
    await turn()
    assert.equal(taken, false)
    while (!server.got.some((f) => f.send)) {
      writes.shift()?.()
      await turn()
    }
    assert.ok(taken)
    while (!told.includes(true)) {
      writes.shift()?.()
      await turn()
    }
    slow.write = inner.write
    while (writes.length > 0) writes.shift()?.()
    end()
    await client.close()
  })

  test('what was not stored is not told', async () => {
    const inner = memoryStore()
    let fails = false
    const server = new FakeServer()
    const client = new Client({ url: 'ws://a', token: 't', transport: server, store: { ...inner, write: (rows, durable) => fails ? Promise.reject(new Error('disk full')) : inner.write(rows, durable) } })
    const run = client.run()
    await until(client, () => client.status().synced)
    const told: string[] = []
    client.subscribe((c) => told.push(...c.conversations))
    await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(told.splice(0), ['g1'])
    fails = true
    server.push({ events: entry(2, 'x') })
    await assert.rejects(run, (e) => isPetrelError(e) && e.kind === 'store')
    assert.deepEqual(told, [])
    await client.close()
  })

  test('a store that fails ends the run', async () => {
    const inner = memoryStore()
    let fails = false
    const store: Store = { ...inner, write: (rows, durable) => fails ? Promise.reject(new Error('disk full')) : inner.write(rows, durable) }
    const server = new FakeServer()
    const client = new Client({ url: 'ws://a', token: 't', transport: server, store })
    const run = client.run()
    await until(client, () => client.status().synced)
    fails = true
    await assert.rejects(client.send({ conv: 'g1', text: 'lost' }), (e) => isPetrelError(e) && e.kind === 'store')
    assert.deepEqual(client.pending('g1'), [])
    server.push({ events: entry(2, 'x') })
    await assert.rejects(run, (e) => isPetrelError(e) && e.kind === 'store' && /disk full/.test(e.message))
    await assert.rejects(client.run(), (e) => isPetrelError(e) && e.kind === 'store')
    await client.close()
  })

  test('a halt that comes while the store is opened is not lost', async () => {
    for (const halt of ['run', 'connect', 'forget'] as const) {
      let loaded = (): void => {}
      const inner = memoryStore()
      const store: Store = { ...inner, load: () => new Promise((resolve) => {
        loaded = () => resolve([])
      }) }
      const server = new FakeServer()
      const client = new Client({ url: 'ws://a', token: 't', transport: server, store })
      const stop = new AbortController()
      const run = halt === 'connect' ? undefined : client.run(stop.signal)
      const end = halt === 'connect' ? client.connect() : () => {}
      await new Promise((resolve) => setImmediate(resolve))
      if (halt === 'run') stop.abort()
      const gone = halt === 'forget' ? client.forget() : undefined
      end()
      await idle()
      loaded()
      await soon(Promise.all([run, gone]))
      await idle()
      assert.deepEqual([halt, client.status().state, server.got], [halt, 'offline', []])
      await client.close()
    }
  })

  test('a store that cannot be opened is the error of the status', async () => {
    const store: Store = { ...memoryStore(), load: () => Promise.reject(new Error('disk is gone')) }
    const client = new Client({ url: 'ws://a', token: 't', transport: new FakeServer(), store })
    client.connect()
    const { kind, message } = await until(client, () => client.status().error)
    assert.deepEqual([kind, message], ['store', 'disk is gone'])
    await assert.rejects(client.send({ conv: 'g1', text: 'x' }), (e) => isPetrelError(e) && e.kind === 'store')
    await client.close()
  })

  test('messages that were refused are shown, the newest 256 of them', () => connected(async (client, server) => {
    server.answer = (f) => f.send ? { error: { code: 'not_member', settled: true } } : usual(f)
    const all = await Promise.all(Array.from({ length: 260 }, (_, i) => client.send({ conv: 'g1', id: `m${i}`, text: 'x' })))
    await Promise.allSettled(all.map((m) => m.wait()))
    const shown = client.pending('g1')
    assert.deepEqual([shown.length, shown[0]?.id, shown.at(-1)?.id], [256, 'm4', 'm259'])
  }))

  test('a call without an answer ends', async () => {
    const nowhere: Transport = { speaks: ['ws'], connect: () => ({ send: () => {}, close: () => {} }) }
    const store = memoryStore()
    const client = new Client({ url: 'ws://a', token: 't', transport: nowhere, store })
    client.connect()
    await client.send({ conv: 'g1', text: 'x' })
    const unavailable = (e: unknown): boolean => isPetrelError(e) && e.code === 'unavailable' && e.retryable
    await assert.rejects(soon(client.devices({ timeoutMs: 5 })), unavailable)
    await assert.rejects(client.history({ conv: 'g1' }, { timeoutMs: 5 }), unavailable)
    await assert.rejects(client.signal({ conv: 'g1', kind: 'call' }, { timeoutMs: 5 }), unavailable)
    await assert.rejects(client.logout({ signal: AbortSignal.abort(new Error('enough')) }), /enough/)
    assert.notDeepEqual(await store.load(), [])
    assert.equal(await client.logout({ timeoutMs: 5 }), false)
    assert.deepEqual(await store.load(), [])
  })

  test('a logout that the server takes voids the tokens', () => connected(async (client, server) => {
    server.answer = (f) => f.call ? { answer: { json: '{}' } } : usual(f)
    assert.equal(await client.logout(), true)
    await assert.rejects(client.run(), hasCode('invalid'))
  }))

  test('who leaves an iterator that waits is gone, and a closed client has no changes any more', () => connected(async (client) => {
    const left = client.changes()
    await left.next()
    const waiting = left.next()
    assert.equal((await soon(left.return())).done, true)
    assert.equal((await waiting).done, true)
    const bot = client.incoming()
    assert.equal((await bot.next()).value?.text, 'first')
    const message = bot.next()
    await new Promise((resolve) => setImmediate(resolve))
    await soon(bot.return())
    assert.equal((await message).done, true)
    const ended = (async () => {
      for await (const _ of client.changes());
    })()
    void client.close()
    await soon(ended)
  }))

  test('a message that a loop has not finished comes again, and no other', async () => {
    const store = memoryStore()
    const server = new FakeServer()
    const next = async (finish: number): Promise<string[]> => { // of a new process, which finishes so many
      const client = new Client({ url: 'ws://a', token: 't', transport: server, store })
      const end = client.connect()
      await until(client, () => client.status().synced)
      for (const [seq, text] of [[2, 'second'], [3, 'third']] as const) server.push({ events: entry(seq, text) })
      const texts: string[] = []
      for await (const m of client.incoming()) {
        texts.push(m.text ?? '')
        if (texts.length > finish) break
      }
      end()
      await client.close()
      return texts
    }
    assert.deepEqual(await next(0), ['first'])
    assert.deepEqual(await next(1), ['first', 'second'])
    assert.deepEqual(await next(1), ['second', 'third'])
    assert.deepEqual(await next(0), ['third'])
  })

  test('a call that broke off is made again with the same requestId', () => connected(async (client, server) => {
    const calls: string[] = []
    server.answer = (frame) => {
      if (!frame.call) return usual(frame)
      calls.push(frame.call.json ?? '')
      if (calls.length === 1) {
        queueMicrotask(() => server.drop())
        return undefined
      }
      return { answer: { json: '{"conv":"g2"}' } }
    }
    const made = client.createGroup('boat', ['bob'])
    await until(client, () => client.status().state === 'offline')
    client.wakeUp()
    assert.equal(await made, 'g2')
    assert.equal(calls.length, 2)
    assert.equal(calls[0], calls[1])
    assert.match(calls[0] ?? '', /"requestId":"[0-9a-f]{32}"/)
  }))

  test('receipts of all pages are loaded', () => connected(async (client, server) => {
    const pages = new Map([
      ['', '{"receipts":[{"conv":"g1","user":"bob","read":"1"}],"more":true,"next":"carl"}'],
      ['carl', '{"more":true,"next":"dave"}'],
      ['dave', '{"receipts":[{"conv":"g1","user":"eve","read":"1"}]}'],
    ])
    server.answer = (frame) => frame.call ? { answer: { json: pages.get((JSON.parse(frame.call.json ?? '') as { after: string }).after) ?? '' } } : usual(frame)
    await client.loadReceipts('g1')
    assert.deepEqual([...client.conversation('g1')?.receipts.keys() ?? []], ['bob', 'eve'])
  }))

  test('at most four requests of the application are under way', () => connected(async (client, server) => {
    server.answer = (frame) => frame.call ? undefined : usual(frame)
    const stop = new AbortController()
    const all = Array.from({ length: 9 }, () => client.devices({ signal: stop.signal }))
    await new Promise((resolve) => setImmediate(resolve))
    const asked = server.got.filter((f) => f.call).length
    stop.abort(new Error('enough'))
    assert.equal(asked, 4)
    for (const one of await Promise.allSettled(all)) assert.match(String(one.status === 'rejected' && one.reason), /enough/)
  }))

  test('what waits for the server is rejected when the client is closed', () => connected(async (client, server) => {
    server.answer = (frame) => frame.call ? undefined : usual(frame)
    const waiting = [...Array.from({ length: 5 }, () => client.devices()), client.history({ conv: 'g1' }), (await client.send({ conv: 'g1', text: 'x' })).wait()]
    await new Promise((resolve) => setImmediate(resolve))
    void client.close()
    for (const one of waiting) await assert.rejects(Promise.resolve<unknown>(one), /closed/)
  }))

  test('calls go over HTTP where the connection has none', async () => {
    const requests: string[] = []
    const fetch = async (url: string, init: RequestInit): Promise<Response> => {
      requests.push(`${url} ${new Headers(init.headers).get('Authorization')}`)
      if (requests.length === 1) return new Response('{}', { status: 401, headers: { 'Petrel-Error': 'unauthenticated' } })
      return new Response('{"user":"bob","displayName":"Bob"}')
    }
    const server = new FakeServer()
    server.answer = (frame) => frame.hello ? { welcome: { ...usual(frame)?.welcome, capabilities: [] } } : usual(frame)
    let n = 0
    const client = new Client({ url: 'wss://a:1/v1/ws', token: () => `t${n++}`, transport: server, fetch })
    const end = client.connect()
    assert.equal((await client.getUser('bob')).displayName, 'Bob')
    assert.deepEqual(requests, ['https://a:1/petrel.v1.AccountService/GetUser Bearer t1', 'https://a:1/petrel.v1.AccountService/GetUser Bearer t2'])
    end()
    await client.close()
  })

  test('a platform without WebSocket is named with what to do', async () => {
    const client = new Client({ url: 'ws://a', token: 't' })
    await assert.rejects(client.run(), (e) => isPetrelError(e) && /webSocket/.test(e.message) && /'ws'/.test(e.message))
    assert.throws(() => webSocketTransport(), hasCode('unsupported'))
  })

  test('a server that refuses for good ends the run with its code', async () => {
    const server = new FakeServer()
    server.answer = () => ({ error: { code: 'version_unsupported', message: 'too old', settled: true } })
    const client = new Client({ url: 'ws://a', token: 't', transport: server })
    await assert.rejects(client.run(), hasCode('version_unsupported'))
    assert.equal(client.status().error?.code, 'version_unsupported')
    await client.close()
    await assert.rejects(client.run(), hasCode('invalid'))
  })

  test('who connects again at once keeps the connection', async () => {
    const server = new FakeServer()
    const client = new Client({ url: 'ws://a', token: 't', transport: server })
    const first = client.connect()
    await until(client, () => client.status().synced)
    first()
    first()
    const second = client.connect()
    await idle()
    assert.equal(client.status().state, 'live')
    assert.equal(server.got.filter((f) => f.hello).length, 1)
    second()
    await until(client, () => client.status().state === 'offline')
    client.connect()
    await until(client, () => client.status().synced)
    await client.close()
  })

  test('an error of another copy of the package is told by its brand', () => {
    const brand = Symbol.for('petrel.error')
    assert.ok(isPetrelError({ [brand]: true }))
    assert.ok(!isPetrelError(new Error('x')))
    assert.ok(new PetrelError({ ...refusedFailure, hint: 'do this' }).message.endsWith('(do this)'))
  })

  test('the codec of protobuf says the same as JSON', () => {
    const frame = { id: '7', send: { conv: 'g1', clientMsgId: 'k', after: '9007199254740991', text: 'héllo', needs: ['rel'], rel: { replyTo: '3' } } }
    const { data, bytes } = protobuf.encode(frame)
    assert.ok(data instanceof Uint8Array && bytes === data.length && bytes < JSON.stringify(frame).length)
    assert.deepEqual(protobuf.decode(new Uint8Array([8, 7, 0x52, 0])), { id: '7', ping: {} })
  })
})

const refusedFailure = { kind: 'refused', code: 'invalid', message: 'm', hint: '', settled: true, retryable: false, retryAfterMs: 0, requestId: '', head: 0 } as const

describe('tokens', { timeout: 300_000 }, () => {
  const tokens: Tokens = { user: 'a', device: 'd', access: 'a1', accessExpiresMs: 0, refresh: 'r1', refreshExpiresMs: 9e15, requestId: 'q1' }

  test('two tabs that refresh at once say the same, and get the same answer', async () => {
    const storage = memoryTokens()
    await storage.write(tokens)
    const bodies = new Set<string>()
    const auth = new Auth('ws://a', async (_, init) => {
      bodies.add(String(init.body))
      return new Response('{"accessToken":"a2","accessExpiresMs":"9000000000000000","refreshToken":"r2"}')
    })
    const unlocked = { ...storage, alone: <T>(f: () => Promise<T>) => f() }
    const tabs = [new SavedTokens(auth, unlocked), new SavedTokens(auth, unlocked)]
    assert.deepEqual(await Promise.all(tabs.map((t) => t.token('', new AbortController().signal))), ['a2', 'a2'])
    assert.deepEqual([...bodies].map((b) => JSON.parse(b) as unknown), [{ requestId: 'q1', refreshToken: 'r1' }])
    assert.equal((await storage.read())?.refresh, 'r2')
  })

  test('a refresh that hangs ends, and lets others go on', async () => {
    const storage = memoryTokens()
    await storage.write(tokens)
    let calls = 0
    const auth = new Auth('ws://a', () => calls++ === 0 ? new Promise(() => {}) : Promise.resolve(new Response('{"accessToken":"a2","accessExpiresMs":"9000000000000000","refreshToken":"r2"}')))
    const quick = { ...systemClock(), after: (ms: number, f: () => void) => systemClock().after(ms / 1000, f) }
    const { signal } = new AbortController()
    const [hangs, next] = [new SavedTokens(auth, storage, { clock: quick }).token('', signal), new SavedTokens(auth, storage, { clock: quick }).token('', signal)]
    await assert.rejects(soon(hangs), hasCode('unavailable'))
    assert.equal(await next, 'a2')
  })

  test('a login that hangs ends, and lets others go on', async () => {
    const storage = memoryTokens()
    const quick = { ...systemClock(), after: (ms: number, f: () => void) => systemClock().after(ms / 1000, f) }
    let calls = 0
    let late = (_: object): void => {}
    const login = (): Promise<object> => {
      calls++
      return calls > 1 ? Promise.resolve({ accessToken: 'b2', accessExpiresMs: '9000000000000000', refreshToken: 'r2' }) : new Promise((resolve) => {
        late = resolve
      })
    }
    const [hangs, next] = [0, 1].map(() => new SavedTokens(new Auth('ws://a'), storage, { login, clock: quick }).token('', new AbortController().signal))
    await assert.rejects(soon(Promise.resolve(hangs)), hasCode('unavailable'))
    assert.equal(await soon(Promise.resolve(next)), 'b2')
    late({ accessToken: 'b1', accessExpiresMs: '9000000000000000', refreshToken: 'r1' })
    await idle()
    assert.equal((await storage.read())?.refresh, 'r2')
  })

  test('a token that is about to expire will do while the server cannot be reached', async () => {
    const storage = memoryTokens()
    const auth = new Auth('ws://a', () => Promise.reject(new Error('no network')))
    const saved = new SavedTokens(auth, storage)
    const { signal } = new AbortController()
    await assert.rejects(async () => saved.token('', signal), hasCode('unauthenticated'))
    await saved.save({ ...tokens, accessExpiresMs: Date.now() + 30_000 })
    assert.equal(await saved.token('', signal), 'a1')
    await assert.rejects(async () => saved.token('a1', signal), (e) => isPetrelError(e) && e.kind === 'link')
  })

  test('the back end is asked for a login when there is none, by one tab at a time, and again when it is void', async () => {
    const storage = memoryTokens()
    const auth = new Auth('ws://a', () => Promise.resolve(new Response('{"code":"unauthenticated"}', { status: 401, headers: { 'Petrel-Error': 'unauthenticated' } })))
    const asked: string[] = []
    const login = async (refused: string) => {
      asked.push(refused)
      const n = asked.length
      return { user: 'a', accessToken: `b${n}`, accessExpiresMs: '9000000000000000', refreshToken: `r${n}` }
    }
    const { signal } = new AbortController()
    const tabs = [new SavedTokens(auth, storage, { login }), new SavedTokens(auth, storage, { login })]
    assert.deepEqual(await Promise.all(tabs.map((t) => t.token('', signal))), ['b1', 'b1'])
    assert.equal(await tabs[1]?.token('b1', signal), 'b2') // the server refuses the token, and to refresh it
    assert.deepEqual(asked, ['', 'b1'])
    const short = new SavedTokens(auth, memoryTokens(), { login: async () => ({ accessToken: 'once' }) })
    assert.equal(await short.token('', signal), 'once')
    assert.equal(await short.read(), undefined)
  })

  test('a back end that says that nobody is logged in ends the client, and one that fails is asked again', async () => {
    const { signal } = new AbortController()
    const token = async (storage: TokenStorage, answer: object | undefined): Promise<string> => {
      const auth = new Auth('ws://a', () => Promise.resolve(new Response('{"code":"revoked"}', { status: 401, headers: { 'Petrel-Error': 'revoked' } })))
      return new SavedTokens(auth, storage, { login: async () => answer }).token('a1', signal)
    }
    await assert.rejects(token(memoryTokens(), undefined), (e) => hasCode('unauthenticated')(e) && isPetrelError(e) && !e.retryable)
    const storage = memoryTokens()
    await storage.write(tokens)
    await assert.rejects(token(storage, undefined), hasCode('revoked'))
    // The body of a refusal that nobody has looked at the status of.
    await assert.rejects(token(storage, { code: 'unauthenticated', message: 'the key is not valid' }), (e) => !isPetrelError(e) && /no accessToken/.test(String(e)))
    assert.equal((await storage.read())?.access, 'a1')
  })

  test('where there is no database, as on a server that renders a page, tokens are kept in memory', async () => {
    assert.equal(globalThis.indexedDB, undefined)
    const saved = new SavedTokens(new Auth('ws://a'), browserTokens('acme/alice'))
    await saved.save({ ...tokens, accessExpiresMs: 9e15 })
    assert.equal(await saved.token('', new AbortController().signal), 'a1')
  })
})

test('a client without an address or a token is refused', () => {
  const made = (o: object) => () => new Client(o as ConstructorParameters<typeof Client>[0])
  const refusedFor = (name: string) => (e: unknown) => isPetrelError(e) && e.code === 'invalid' && e.message.includes(name)
  assert.throws(made({ token: 't' }), refusedFor('url'))
  assert.throws(made({ url: '127.0.0.1:8080', token: 't' }), refusedFor('url'))
  assert.throws(made({ url: 'ws://127.0.0.1:8080', token: undefined }), refusedFor('token'))
})
