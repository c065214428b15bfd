import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Client, isPetrelError } from '../src/index.js'
import { type Contact, type Contacts, contactsOf } from '../src/contacts.js'
import type { ClientFrameJson, ContactJson, ServerFrameJson } from '../src/wire/frames_gen.js'
import { FakeServer, usual } from './fake_server.js'
import { idle, until } from './until.js'

type Values = Readonly<Record<string, string>>

const none: Values = { contact: '', contact_sent: '', contact_received: '' }

/** A server whose user has settings, and whose answers to calls come when the test gives them. */
class ContactServer extends FakeServer {
  readonly #personal: readonly { user: string; name: string; value: string; seq: string }[]
  #seq = 10

  /** of: the settings of users at the first sync. */
  constructor(of: Readonly<Record<string, Values>> = {}) {
    super()
    this.#personal = Object.entries(of).flatMap(([user, values]) => Object.entries(values).map(([name, value]) => ({ user, name, value, seq: '5' })))
    this.answer = (f) => (f.sync ? { sync: { token: 'AQ==', personal: this.#personal } } : usual(f))
  }

  get calls(): readonly ClientFrameJson[] {
    return this.got.filter((f) => f.call)
  }

  /** Answers the newest call. */
  give(contact: ContactJson): void {
    this.push({ id: this.calls.at(-1)?.id ?? '', answer: { json: JSON.stringify(contact) } })
  }

  refuse(code: string): void {
    this.push({ id: this.calls.at(-1)?.id ?? '', error: { code } as NonNullable<ServerFrameJson['error']> })
  }

  /** Pushes an entry of the inbox. */
  set(user: string, values: Values): void {
    const seq = String(++this.#seq)
    this.push({ events: { messages: [{ conv: 'inbox', seq, from: 'alice', clientMsgId: seq, timeMs: '1', inbox: { settings: { user, values: { ...none, ...values } } } }] } })
  }
}

async function withContacts(server: ContactServer, f: (contacts: Contacts, client: Client) => Promise<void>): Promise<void> {
  const client = new Client({ url: 'ws://a', token: 't', transport: server })
  client.connect()
  await until(client, () => client.status().synced)
  await f(contactsOf(client), client).finally(() => client.close())
}

const users = (contacts: Contacts): string => contacts.list().map((c) => c.user).join()

describe('contacts', { timeout: 300_000 }, () => {
  test('they are what the settings of users say', () => withContacts(new ContactServer({
    dave: { contact: '1700000000000 Dave from  work' }, bob: { contact: '1', contact_sent: '' }, carol: { contact_sent: '2 hello' }, erin: { contact_received: '3 it is me' },
    frank: { blocked: '1' }, grace: { contact: '' }, heidi: { contact_sent: '4 mine', contact_received: '5 theirs' }, ivan: { contact: 'soon' },
  }), async (contacts, client) => {
    const all: readonly Contact[] = [
      { user: 'bob', sinceMs: 1, remark: '', greeting: '' },
      { user: 'carol', sentMs: 2, remark: '', greeting: 'hello' },
      { user: 'dave', sinceMs: 1_700_000_000_000, remark: 'Dave from  work', greeting: '' },
      { user: 'erin', receivedMs: 3, remark: '', greeting: 'it is me' },
      { user: 'heidi', sentMs: 4, receivedMs: 5, remark: '', greeting: 'theirs' },
    ]
    assert.deepEqual(contacts.list(), all)
    for (const one of all) assert.deepEqual(contacts.get(one.user), one)
    for (const user of ['frank', 'grace', 'ivan', 'nobody', '']) assert.equal(contacts.get(user), undefined)
    assert.equal(contactsOf(client), contacts)
  }))

  test('a contact is the same object until it changes, and so is the list', () => {
    const server = new ContactServer({ bob: { contact: '1 Bobby' }, carol: { contact_sent: '2 hello' } })
    return withContacts(server, async (contacts, client) => {
      const [list, bob, carol] = [contacts.list(), contacts.get('bob'), contacts.get('carol')]
      assert.ok(Object.isFrozen(bob))
      assert.equal(list[0], bob)
      server.set('bob', { contact: '1 Bobby' })
      server.set('frank', { blocked: '1' })
      await until(client, () => client.blocked().length === 1)
      assert.equal(contacts.list(), list)
      assert.equal(contacts.get('bob'), bob)
      server.set('carol', {})
      await until(client, () => !contacts.get('carol'))
      assert.equal(contacts.list()[0], bob)
      assert.deepEqual(list, [bob, carol])
      assert.equal(users(contacts), 'bob')
    })
  })

  test('an answer shows at once, until the entry of a change comes', () => {
    const server = new ContactServer({ bob: { contact_received: '2 hi' }, carol: { contact: '1' } })
    return withContacts(server, async (contacts, client) => {
      const shown: string[] = []
      client.subscribe((change) => {
        if (change.account) shown.push(users(contacts))
      })
      await idle()
      const asked = contacts.ask({ handle: 'davy' }, 'it is Alice')
      await idle()
      server.give({ user: 'dave', sentMs: '3', greeting: 'it is Alice' })
      const dave = await asked
      assert.deepEqual(dave, { user: 'dave', sentMs: 3, remark: '', greeting: 'it is Alice' })
      assert.equal(contacts.get('dave'), dave)
      await idle()
      assert.deepEqual(shown, ['bob,carol', 'bob,carol,dave'])
      server.set('dave', { contact_sent: '3 it is Alice' })
      assert.equal(contacts.get('dave'), dave)

      const removed = contacts.remove('carol')
      await idle()
      server.give({ user: 'carol' })
      assert.deepEqual(await removed, { user: 'carol', remark: '', greeting: '' })
      assert.equal(users(contacts), 'bob,dave')
      server.set('carol', { contact: '4' }) // the back end has made them contacts again
      assert.equal(users(contacts), 'bob,carol,dave')
    })
  })

  test('messages of a stranger show in their conversation', () => {
    const server = new ContactServer()
    const { answer } = server
    server.answer = (f) => (f.sync ? { sync: { token: 'AQ==', convs: [{ conv: 'd1', kind: 'CONV_KIND_DIRECT', peer: 'bob', head: '1', joined: '1', firstSeq: '1' }] } } : answer(f))
    return withContacts(server, async (contacts, client) => {
      const first = (): string | undefined => client.conversation('d1')?.personal.firstMessages
      assert.equal(first(), '')
      server.set('bob', { first_messages: '1700000000000' })
      assert.equal(first(), 'waiting')
      assert.equal(users(contacts), '') // he is no contact
      server.push({ events: { messages: [{ conv: 'd1', seq: '2', from: 'bob', clientMsgId: 'b2', timeMs: '1', text: '@alice', rel: { mentions: ['alice'] } }] } })
      await idle()
      assert.deepEqual(client.conversation('d1')?.mentions, [])
      const refused = contacts.refuseMessages('bob')
      await idle()
      server.give({ user: 'bob', messagesMs: '1700000000000', messagesRefused: true })
      await refused
      assert.equal(first(), 'refused')
      server.set('bob', { first_messages: '1700000000000 refused' })
      assert.equal(first(), 'refused')
      const accepted = contacts.acceptMessages('bob')
      await idle()
      server.give({ user: 'bob' })
      await accepted
      assert.equal(first(), '')
    })
  })

  test('an answer that is older than an entry changes nothing', () => {
    const server = new ContactServer({ bob: { contact_received: '2 hi' } })
    return withContacts(server, async (contacts) => {
      const accepted = contacts.accept('bob')
      await idle()
      server.set('bob', { contact: '3' })
      server.set('bob', { contact: '3 from another device' })
      server.give({ user: 'bob', sinceMs: '3' })
      assert.deepEqual(await accepted, { user: 'bob', sinceMs: 3, remark: '', greeting: '' })
      assert.equal(contacts.get('bob')?.remark, 'from another device')
    })
  })

  test('an answer of another connection changes nothing: what has come by the sync may be newer', () => {
    const server = new ContactServer()
    return withContacts(server, async (contacts, client) => {
      const asked = contacts.ask({ user: 'bob' })
      await idle()
      server.drop()
      await until(client, () => client.status().state !== 'live')
      client.wakeUp()
      await until(client, () => client.status().synced && client.status().state === 'live')
      await idle()
      const [first, again] = server.calls
      assert.equal(first?.call?.json, again?.call?.json) // with the same requestId
      server.give({ user: 'bob', sentMs: '3' }) // another device has withdrawn it meanwhile
      assert.equal((await asked).sentMs, 3)
      assert.equal(contacts.get('bob'), undefined)
    })
  })

  test('each act is a call with a request id, and a refusal has the code of the server', () => {
    const server = new ContactServer()
    return withContacts(server, async (contacts) => {
      const acts = [
        () => contacts.ask({ user: 'bob' }, 'hi'), () => contacts.ask({ handle: 'bobby' }), () => contacts.accept('bob'), () => contacts.refuse('bob'),
        () => contacts.withdraw('bob'), () => contacts.remove('bob'), () => contacts.setRemark('bob', 'Bobby'),
      ]
      for (const act of acts) {
        const done = act()
        await idle()
        server.refuse('no_contact')
        await assert.rejects(done, (why) => isPetrelError(why) && why.code === 'no_contact')
      }
      const got = server.calls.map(({ call }) => {
        const { requestId, ...q } = JSON.parse(call?.json ?? '') as Record<string, string>
        assert.match(requestId ?? '', /^[0-9a-f]{32}$/)
        return [call?.method?.replace('petrel.v1.ContactService/', ''), q]
      })
      assert.deepEqual(got, [
        ['RequestContact', { user: 'bob', greeting: 'hi' }], ['RequestContact', { handle: 'bobby', greeting: '' }], ['AcceptContact', { user: 'bob' }], ['RefuseContact', { user: 'bob' }],
        ['WithdrawContact', { user: 'bob' }], ['RemoveContact', { user: 'bob' }], ['SetRemark', { user: 'bob', remark: 'Bobby' }],
      ])
    })
  })
})
