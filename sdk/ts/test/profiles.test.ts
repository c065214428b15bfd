import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Change, Clock, Conversation, Presence } from '../src/index.js'
import { PetrelError } from '../src/index.js'
import { Profiles, type ProfilesOptions, type SavedProfiles } from '../src/profiles.js'
import type { GetUsersRequestJson, GetUsersResponseJson } from '../src/wire/frames_gen.js'

/** A clock that goes on when the test says so. */
class TestClock implements Clock {
  #now = 1_795_262_400_000
  #timers: { readonly at: number; readonly f: () => void }[] = []

  now(): number {
    return this.#now
  }

  after(ms: number, f: () => void): () => void {
    const timer = { at: this.#now + ms, f }
    this.#timers.push(timer)
    return () => void (this.#timers = this.#timers.filter((x) => x !== timer))
  }

  /** Lets time pass, with all that is due in it and the answers that follow. */
  async pass(ms = 0): Promise<void> {
    const end = this.#now + ms
    for (;;) {
      for (let i = 0; i < 20; i++) await Promise.resolve()
      const next = this.#timers.filter((x) => x.at <= end).sort((a, b) => a.at - b.at)[0]
      if (!next) break
      this.#timers = this.#timers.filter((x) => x !== next)
      this.#now = Math.max(this.#now, next.at)
      next.f()
    }
    this.#now = end
  }
}

const nothing = { list: false, status: false, account: false, unread: false, signals: false, presence: false, pending: false }

/** A client whose server has the users of `versions`. */
class TestClient {
  readonly clock = new TestClock()
  readonly asked: GetUsersRequestJson[] = []
  readonly versions = new Map<string, string>()
  readonly presences = new Map<string, string>()
  readonly peers = new Map<string, { peer: string; peerProfile: string }>()
  history = 'h1'
  answer: ((q: GetUsersRequestJson) => GetUsersResponseJson | undefined | Promise<GetUsersResponseJson>) | undefined
  #listeners = new Set<(c: Change) => void>()

  profiles(o: ProfilesOptions = {}): Profiles {
    return new Profiles({
      call: ((_: string, q: GetUsersRequestJson) => this.#call(q)) as never,
      subscribe: (f) => {
        this.#listeners.add(f)
        return () => this.#listeners.delete(f)
      },
      status: () => ({ history: this.history }) as never,
      presence: (user) => this.presences.has(user) ? { online: false, lastMs: 0, profile: this.presences.get(user) } as Presence : undefined,
      conversation: (conv) => this.peers.get(conv) as Conversation | undefined,
    }, { clock: this.clock, ...o })
  }

  async #call(q: GetUsersRequestJson): Promise<GetUsersResponseJson> {
    this.asked.push(q)
    const answer = await this.answer?.(q)
    if (answer) return answer
    const named = q.users ?? []
    return {
      users: named.filter((u) => this.versions.has(u.user ?? '') && this.versions.get(u.user ?? '') !== u.version).map(({ user = '' }) => ({ user, displayName: `${user} ${this.versions.get(user)}`, version: this.versions.get(user) ?? '' })),
      unknown: named.map((u) => u.user ?? '').filter((u) => !this.versions.has(u)),
    }
  }

  has(...users: string[]): void {
    for (const user of users) this.versions.set(user, 'a')
  }

  tell(change: Partial<Change>): void {
    for (const f of this.#listeners) f({ ...nothing, conversations: new Set(), ...change })
  }

  presence(user: string, version: string): void {
    this.presences.set(user, version)
    this.tell({ presence: true })
  }

  /** The users of all requests. */
  get users(): string[][] {
    return this.asked.map((q) => (q.users ?? []).map((u) => u.user ?? ''))
  }
}

const numbered = (n: number, name = 'u'): string[] => Array.from({ length: n }, (_, i) => `${name}${i}`)

describe('profiles', () => {
  test('wishes of one tick are one request, newer ones come first, and 100 fit into one', async () => {
    const c = new TestClient()
    c.has(...numbered(230), 'bob', 'carol')
    const p = c.profiles()
    for (const user of numbered(230)) p.want(user)
    p.want(['u0', 'u1'])
    let answered = (): void => {}
    c.answer = () => new Promise((resolve) => {
      answered = () => resolve({})
      c.answer = undefined
    })
    await c.clock.pass()
    p.want('bob') // while the first request is under way
    p.want(['u0', 'carol'])
    answered()
    await c.clock.pass()
    assert.deepEqual(c.users.map((u) => u.length), [100, 100, 32])
    assert.deepEqual(c.users[0]?.slice(0, 2), ['u0', 'u1'])
    assert.deepEqual(c.users[1]?.slice(0, 3), ['bob', 'carol', 'u100'])
    assert.equal(p.get('bob')?.displayName, 'bob a')
  })

  test('a request names the conversation of its users, and has none of another one', async () => {
    const c = new TestClient()
    c.has('bob', 'carol', 'dave', 'erin')
    const p = c.profiles()
    p.want('bob')
    p.want('carol', { conv: 'g1' })
    p.want('dave', { conv: 'g2' })
    p.want('erin', { conv: 'g1' })
    await c.clock.pass()
    assert.deepEqual(c.asked.map((q) => [q.conv, q.users?.map((u) => u.user).join()]), [['g1', 'bob,carol,erin'], ['g2', 'dave']])
    c.versions.set('dave', 'b')
    c.presence('dave', 'b')
    await c.clock.pass()
    assert.deepEqual(c.asked[2], { users: [{ user: 'dave', version: 'a' }], conv: 'g2' })
  })

  test('a snapshot is frozen, and the same object until the version changes', async () => {
    const c = new TestClient()
    c.has('bob')
    const p = c.profiles()
    const changes: string[][] = []
    p.subscribe((users) => changes.push([...users]))
    assert.equal(p.get('bob'), undefined)
    p.want('bob')
    await c.clock.pass()
    const first = p.get('bob')
    assert.ok(Object.isFrozen(first) && Object.isFrozen(first?.fields))
    await c.clock.pass(60_000)
    p.want('bob')
    await c.clock.pass()
    assert.deepEqual(c.asked[1], { users: [{ user: 'bob', version: 'a' }] })
    p.learn({ user: 'bob', displayName: 'bob a', version: 'a' })
    assert.equal(p.get('bob'), first)
    c.versions.set('bob', 'b')
    c.presence('bob', 'b')
    await c.clock.pass()
    assert.equal(p.get('bob')?.displayName, 'bob b')
    assert.deepEqual(changes, [['bob'], ['bob']])
  })

  test('a profile that is fresh or told to be the present one is not asked for', async () => {
    const c = new TestClient()
    c.has('bob')
    const p = c.profiles()
    p.want('bob')
    await c.clock.pass()
    p.want('bob')
    await c.clock.pass()
    assert.equal(c.asked.length, 1)
    c.presence('bob', 'a')
    await c.clock.pass(600_000)
    p.want('bob')
    await c.clock.pass()
    assert.equal(c.asked.length, 1)
    c.presences.clear() // the connection has ended
    c.tell({ presence: true })
    await c.clock.pass(60_000)
    p.want('bob')
    await c.clock.pass()
    assert.equal(c.asked.length, 2)
  })

  test('versions are compared for equality: after a restore an earlier one is taken', async () => {
    const c = new TestClient()
    c.versions.set('bob', 'b')
    const p = c.profiles()
    p.want('bob')
    await c.clock.pass()
    c.versions.set('bob', 'a')
    c.presence('bob', 'a')
    await c.clock.pass()
    assert.equal(p.get('bob')?.version, 'a')
  })

  test('syncs and lists of members tell versions, each of them once', async () => {
    const c = new TestClient()
    c.has('bob', 'carol')
    const p = c.profiles()
    p.want(['bob', 'carol'])
    await c.clock.pass()
    c.versions.set('bob', 'b')
    c.peers.set('d1', { peer: 'bob', peerProfile: 'b' })
    c.tell({ conversations: new Set(['d1']) })
    p.told('carol', 'a')
    p.told('dave', 'x') // no view has shown dave
    await c.clock.pass()
    assert.deepEqual(c.users, [['bob', 'carol'], ['bob']])
    c.versions.set('bob', 'c')
    c.presence('bob', 'c')
    await c.clock.pass()
    c.tell({ conversations: new Set(['d1']), presence: true }) // the sync has told "b", which is old by now
    await c.clock.pass()
    assert.equal(c.asked.length, 3)
    assert.equal(p.get('bob')?.version, 'c')
  })

  test('a version that is told during a request is asked for after it', async () => {
    const c = new TestClient()
    c.has('bob')
    const p = c.profiles()
    p.want('bob')
    await c.clock.pass(20_000)
    let answered = (): void => {}
    c.answer = () => new Promise((resolve) => {
      answered = () => resolve({})
      c.answer = undefined
    })
    p.want('bob')
    await c.clock.pass()
    c.versions.set('bob', 'b')
    c.presence('bob', 'b')
    answered()
    await c.clock.pass()
    assert.equal(p.get('bob')?.version, 'b')
  })

  test('users whose look-ups are used up are asked for when the server has some again', async () => {
    const c = new TestClient()
    c.has('bob', 'carol')
    c.answer = () => {
      c.answer = undefined
      return { users: [{ user: 'bob', displayName: 'Bob', version: 'a' }], later: ['carol'], retryAfterMs: 30_000 }
    }
    const p = c.profiles()
    p.want(['bob', 'carol'])
    await c.clock.pass(29_999)
    p.want('carol')
    await c.clock.pass()
    assert.deepEqual(c.users, [['bob', 'carol']])
    await c.clock.pass(1)
    assert.deepEqual(c.users[1], ['carol'])
    c.answer = () => {
      c.answer = undefined
      throw new PetrelError({ kind: 'refused', code: 'rate_limited', message: '', hint: '', settled: true, retryable: true, retryAfterMs: 7000, requestId: '', head: 0 })
    }
    p.want('dave')
    await c.clock.pass(6999)
    assert.equal(c.asked.length, 3)
    await c.clock.pass(1)
    assert.ok(p.isUnknown('dave'))
  })

  test('a user who does not exist is not asked for again, until a version is told', async () => {
    const c = new TestClient()
    const p = c.profiles()
    p.want('bob')
    await c.clock.pass()
    assert.ok(p.isUnknown('bob'))
    await c.clock.pass(3_600_000)
    p.want('bob')
    await c.clock.pass()
    assert.equal(c.asked.length, 1)
    c.has('bob')
    p.told('bob', 'a')
    await c.clock.pass()
    assert.equal(p.get('bob')?.displayName, 'bob a')
    assert.ok(!p.isUnknown('bob'))
    c.versions.clear() // the account is disabled
    c.presence('bob', 'b')
    await c.clock.pass()
    assert.equal(p.get('bob'), undefined)
  })

  test('another history id drops everything, also the answer that is under way', async () => {
    const c = new TestClient()
    c.has('bob', 'carol')
    const p = c.profiles()
    c.tell({ status: true })
    p.want(['bob', 'nobody'])
    await c.clock.pass()
    c.answer = () => {
      c.answer = undefined
      c.history = 'h2'
      c.tell({ status: true })
      return { users: [{ user: 'carol', displayName: 'of the former history', version: 'x' }] }
    }
    p.want('carol')
    await c.clock.pass()
    assert.equal(p.get('bob'), undefined)
    assert.ok(!p.isUnknown('nobody'))
    assert.equal(p.get('carol')?.displayName, 'carol a')
  })

  test('the profiles that were not wanted for the longest time go first', async () => {
    const c = new TestClient()
    c.has('bob', 'carol', 'dave', 'erin')
    const p = c.profiles({ most: 3 })
    for (const user of ['bob', 'carol', 'dave', 'bob', 'erin']) {
      p.want(user)
      await c.clock.pass()
    }
    assert.deepEqual(['bob', 'carol', 'dave', 'erin'].filter((u) => p.get(u)), ['bob', 'dave', 'erin'])
  })

  test('an application keeps the profiles of one history, and a view that shows them has them checked', async () => {
    const c = new TestClient()
    c.has('bob')
    const saved: SavedProfiles[] = []
    const p = c.profiles({ save: (s) => saved.push(JSON.parse(JSON.stringify(s)) as SavedProfiles) })
    c.tell({ status: true })
    p.want('bob')
    await c.clock.pass(1000)
    assert.equal(saved.length, 1)
    p.end()
    const again = c.profiles({ load: () => saved[0] })
    assert.equal(again.get('bob')?.displayName, 'bob a')
    again.want('bob')
    await c.clock.pass()
    assert.deepEqual(c.asked.at(-1), { users: [{ user: 'bob', version: 'a' }] })
    const late = c.profiles({ load: () => Promise.resolve(saved[0]) })
    await c.clock.pass()
    assert.equal(late.get('bob')?.displayName, 'bob a')
    c.history = 'h2'
    assert.equal(c.profiles({ load: () => saved[0] }).get('bob'), undefined)
    late.want('bob')
    c.tell({ status: true })
    assert.equal(late.get('bob'), undefined)
  })

  test('answers of other calls are learned, and nothing is asked for after the end', async () => {
    const c = new TestClient()
    c.has('bob', 'carol')
    const p = c.profiles()
    p.want('bob')
    p.learn({ user: 'bob', displayName: 'Bob', handle: 'bobby', version: 'a' })
    await c.clock.pass()
    assert.equal(p.get('bob')?.handle, 'bobby')
    p.end()
    p.want('carol')
    p.learn({ user: 'carol', version: 'a' })
    await c.clock.pass(60_000)
    assert.equal(p.get('carol'), undefined)
    assert.equal(c.asked.length, 0)
  })
})
