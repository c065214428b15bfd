import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import * as core from './index.js'

// A core that is live and has one conversation with two messages of bob.
function live(): core.Core {
  let ids = 0
  const c = core.newCore({ url: 'ws://a', speaks: ['ws'], device: 'd', client: 'test', stored: true, keep: 500, newest: 20, manualDelivered: true }, () => 0, () => `id${++ids}`, 1e12)
  core.open(c, [])
  core.start(c)
  core.tokenCame(c, 'token')
  core.opened(c, 1)
  core.frame(c, 1, core.decode({ id: '1', welcome: { user: 'alice', inbox: 'i', historyId: 'h', capabilities: ['cursor', 'notes', 'signal', 'presence'] } }))
  const newest = ['1', '2'].map((seq) => ({ conv: 'g1', seq, from: 'bob', clientMsgId: `b${seq}`, counted: seq, text: seq }))
  const convs = ['g1', 'g2'].map((conv) => ({ conv, kind: 'CONV_KIND_GROUP', head: conv === 'g1' ? '2' : '0', joined: '1', firstSeq: '1', counted: conv === 'g1' ? '2' : '0', newest: conv === 'g1' ? newest : [] }))
  core.frame(c, 1, core.decode({ id: '2', sync: { token: 'AQ==', convs } }))
  turn(c)
  return c
}

function turn(c: core.Core): core.Change {
  core.step(c)
  core.takeOutputs(c)
  return core.stored(c, core.prepare(c))
}

function events(c: core.Core, ev: object): void {
  core.frame(c, 1, core.decode({ events: ev }))
  turn(c)
}

/** All that an application can hold. */
function held(c: core.Core): object[] {
  return [
    core.conversations(c), core.conversation(c, 'g1') ?? {}, core.messages(c, 'g1'), core.pending(c, 'g1'), core.signals(c), core.blockedUsers(c), core.status(c), core.unreadTotal(c),
    ...core.messages(c, 'g1'),
  ]
}

describe('snapshots', () => {
  test('what has not changed is the same object', () => {
    const c = live()
    const before = held(c)
    events(c, { messages: [{ conv: 'g2', seq: '1', from: 'bob', clientMsgId: 'x', text: 'elsewhere' }], receipts: [{ conv: 'g9', user: 'bob', read: '1' }] })
    core.step(c)
    const after = held(c)
    for (const i of [1, 2, 3, 4, 5, 6, 8, 9]) assert.equal(after[i], before[i], `${i}`)
    assert.notEqual(after[0], before[0])
  })

  test('what a snapshot says does not change any more, and what stays the same of it is shared', () => {
    const c = live()
    const [list, one] = [core.messages(c, 'g1'), core.conversation(c, 'g1')]
    const copy = structuredClone({ list, one })
    events(c, { messages: [{ conv: 'g1', seq: '3', from: 'bob', clientMsgId: 'b3', counted: '3', text: '3' }, { conv: 'g1', seq: '4', from: 'bob', clientMsgId: 'b4', counted: '3', edit: { target: '2', text: 'two' } }] })
    core.markRead(c, 'g1', 1)
    turn(c)
    assert.deepEqual({ list, one }, copy)
    const now = core.messages(c, 'g1')
    assert.equal(now[0], list[0])
    assert.notEqual(now[1], list[1])
    assert.equal(core.conversation(c, 'g1')?.receipts, one?.receipts)
    assert.equal(core.conversation(c, 'g1')?.personal, one?.personal)
  })

  test('a touch that changes nothing gives the same objects', () => {
    const c = live()
    events(c, { receipts: [{ conv: 'g1', user: 'alice', delivered: '1' }] })
    const before = held(c)
    events(c, { receipts: [{ conv: 'g1', user: 'alice', delivered: '1' }] })
    assert.deepEqual(held(c).map((one, i) => one === before[i]), before.map(() => true))
  })

  test('a note changes one message', () => {
    const c = live()
    const before = core.messages(c, 'g1')
    events(c, { notes: [{ conv: 'g1', seq: '2', version: '1', reactions: [{ emoji: '+', count: '1' }] }] })
    const after = core.messages(c, 'g1')
    assert.equal(after[0], before[0])
    assert.deepEqual(after[1]?.reactions, [{ emoji: '+', count: 1, mine: false }])
  })

  test('a message on its way is one object until something of it changes', () => {
    const c = live()
    const d = core.draft(c, { conv: 'g1', text: 'hi' })
    assert.ok(!d.refused && d.row)
    assert.equal(core.pending(c, 'g1'), core.pending(c, 'g1'))
    assert.equal(core.outgoing(c, d.outgoing.id), d.outgoing)
    core.kept(c, d.outgoing.id)
    core.step(c)
    assert.equal(core.outgoing(c, d.outgoing.id), d.outgoing)
    assert.equal(d.outgoing.draft.text, 'hi')
    assert.deepEqual(structuredClone(d.row), d.row)
  })
})
