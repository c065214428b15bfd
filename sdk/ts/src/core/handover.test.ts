import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as core from './index.js'

/** The core of a tab that leads, with the group g1. */
function leading(): core.Core {
  let ids = 0
  const c = core.newCore({ url: 'ws://a', speaks: ['ws'], device: 'd', client: 'test', stored: true, keep: 500, newest: 20, manualDelivered: true }, () => 0, () => `id${++ids}`, 1e12)
  core.open(c, [])
  core.lead(c)
  core.start(c)
  core.tokenCame(c, 'token')
  core.opened(c, 1)
  core.frame(c, 1, core.decode({ id: '1', welcome: { user: 'alice', inbox: 'i', historyId: 'h', capabilities: [] } }))
  core.frame(c, 1, core.decode({ id: '2', sync: { token: 'AQ==', convs: [{ conv: 'g1', kind: 'CONV_KIND_GROUP', head: '0', joined: '1', firstSeq: '1' }] } }))
  core.stored(c, core.prepare(c))
  core.takeOutputs(c)
  return c
}

const outbox = (c: core.Core): readonly core.Row[] => core.prepare(c).rows.filter(({ key }) => key.startsWith('o/'))

// Another tab takes over in the turn in which the answer came: what is stored of the message
// is decided there now, and an older row would overwrite it.
test('a tab that follows stores nothing of what it was sending', () => {
  const c = leading()
  const drafted = core.draft(c, { conv: 'g1', text: 'hi' })
  assert.ok(drafted.refused === undefined)
  core.kept(c, drafted.outgoing.id)
  core.step(c)
  const sent = core.takeOutputs(c).frames.map(({ data }) => JSON.parse(String(data)) as { id?: string; send?: object }).find(({ send }) => send)
  core.stored(c, core.prepare(c))
  core.frame(c, 1, core.decode({ id: sent?.id ?? '', error: { code: 'not_member', settled: true } }))
  assert.equal(core.pending(c, 'g1')[0]?.state, 'rejected')
  core.follow(c)
  assert.deepEqual(outbox(c), [])
})

// The row of a message may come from another tab, or be in the store at a takeover, after the
// server has pushed the entry.
for (const [how, take] of [['another tab tells of', (c: core.Core, rows: readonly core.StoredRow[]) => core.mirror(c, rows, false)], ['a former tab has left', core.lead]] as const) {
  test(`a message that ${how} is not shown twice when its entry is there`, () => {
    const c = leading()
    core.frame(c, 1, core.decode({ events: { messages: [{ conv: 'g1', seq: '1', from: 'alice', clientMsgId: 'k', timeMs: '1', counted: '1', text: 'hi' }] } }))
    core.stored(c, core.prepare(c))
    const send = { conv: 'g1', user: '', clientMsgId: 'k', type: '', text: 'hi', needs: [], after: 0 }
    take(c, [{ key: 'o/k', value: { send, n: 1, composedMs: 1e12, look: false, stale: false } }])
    assert.deepEqual([core.pending(c, 'g1'), core.messages(c, 'g1').map((m) => m.clientMsgId)], [[], ['k']])
    assert.deepEqual(outbox(c), [{ key: 'o/k', value: null }])
    core.step(c)
    assert.deepEqual(core.takeOutputs(c).frames, [])
  })
}

// A tab that is opened gets a message from another one before its first welcome. That is
// another history for it, but the tab that leads has sent the message meanwhile.
test('who takes over does not give a message that may have been sent another after', () => {
  const c = core.newCore({ url: 'ws://a', speaks: ['ws'], device: 'd', client: 'test', stored: true, keep: 500, newest: 20, manualDelivered: true }, () => 0, () => 'id', 1e12)
  const rows = [{ key: 'o/k', value: { send: { conv: 'g1', user: '', clientMsgId: 'k', type: '', text: 'hi', needs: [], after: 0 }, n: 1, composedMs: 1e12, look: false, stale: false } }]
  core.open(c, [])
  core.follow(c)
  core.mirror(c, rows, false)
  core.start(c)
  core.tokenCame(c, 'token')
  core.opened(c, 1)
  core.frame(c, 1, core.decode({ id: '1', welcome: { user: 'alice', inbox: 'i', historyId: 'h', capabilities: [] } }))
  core.frame(c, 1, core.decode({ id: '2', sync: { token: 'AQ==', convs: [{ conv: 'g1', kind: 'CONV_KIND_GROUP', head: '9', joined: '1', firstSeq: '1' }] } }))
  core.stored(c, core.prepare(c))
  core.takeOutputs(c)
  core.lead(c, rows)
  for (let i = 0; i < 3; i++) {
    core.stored(c, core.prepare(c))
    core.step(c)
  }
  const asked = core.takeOutputs(c).frames.map(({ data }) => JSON.parse(String(data)) as { send?: object; history?: object })
  assert.deepEqual(asked.filter(({ send }) => send), [])
  assert.equal(asked.filter(({ history }) => history).length, 2, 'one looks for the message, from the beginning')
})

// The tab that leads has sent it, and removed its row, while this one writes what it has made of it.
test('who takes over does not send what another tab has sent and removed', () => {
  const c = core.newCore({ url: 'ws://a', speaks: ['ws'], device: 'd', client: 'test', stored: true, keep: 500, newest: 20, manualDelivered: true }, () => 0, () => 'id', 1e12)
  core.open(c, [])
  core.follow(c)
  core.mirror(c, [{ key: 'o/k', value: { send: { conv: 'g1', user: '', clientMsgId: 'k', type: '', text: 'hi', needs: [], after: 0 }, n: 1, composedMs: 1e12, look: false, stale: false } }], false)
  core.stored(c, core.prepare(c))
  core.start(c)
  core.tokenCame(c, 'token')
  core.opened(c, 1)
  core.frame(c, 1, core.decode({ id: '1', welcome: { user: 'alice', inbox: 'i', historyId: 'h', capabilities: [] } }))
  core.lead(c, [{ key: 'meta', value: { user: 'alice', device: 'd', history: 'h', inbox: 'i', token: '', synced: false } }])
  assert.deepEqual(core.pending(c, 'g1'), [])
})

/** The core of a tab that follows and knows the group g1. */
function following(): core.Core {
  const c = core.newCore({ url: 'ws://a', speaks: ['ws'], device: 'd', client: 'test', stored: true, keep: 500, newest: 20, manualDelivered: true }, () => 0, () => 'id', 1e12)
  core.open(c, [])
  core.follow(c)
  core.start(c)
  welcomed(c, 1, 'h')
  core.frame(c, 1, core.decode({ id: '2', sync: { token: 'AQ==', convs: [{ conv: 'g1', kind: 'CONV_KIND_GROUP', head: '0', joined: '1', firstSeq: '1' }] } }))
  core.stored(c, core.prepare(c))
  core.takeOutputs(c)
  return c
}

function welcomed(c: core.Core, conn: number, historyId: string): void {
  core.tokenCame(c, 'token')
  core.opened(c, conn)
  core.frame(c, conn, core.decode({ id: '1', welcome: { user: 'alice', inbox: 'i', historyId, capabilities: [] } }))
}

test('a tab that follows does not remove the row of a message that another one sends', () => {
  const c = following()
  core.mirror(c, [{ key: 'o/k', value: { send: { conv: 'g1', user: '', clientMsgId: 'k', type: '', text: 'hi', needs: [], after: 0 }, n: 1, composedMs: 1e12, look: false, stale: false } }], false)
  assert.deepEqual(core.pending(c, 'g1').map(({ id }) => id), ['k'])
  core.frame(c, 1, core.decode({ events: { messages: [{ conv: 'g1', seq: '1', from: 'alice', clientMsgId: 'k', timeMs: '1', counted: '1', text: 'hi' }] } }))
  assert.deepEqual([core.pending(c, 'g1'), core.messages(c, 'g1').map((m) => m.clientMsgId)], [[], ['k']])
  assert.deepEqual(outbox(c), [])
})

test('a tab that follows drops what it knows when the history is another one', () => {
  const c = following()
  assert.ok(core.conversation(c, 'g1'))
  core.closed(c, 1, core.failure('link', 'cut'))
  core.wakeUp(c)
  core.step(c)
  welcomed(c, 2, 'h2')
  assert.equal(core.conversation(c, 'g1'), undefined)
})
