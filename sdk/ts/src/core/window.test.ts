import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as core from './index.js'
import { newWindow, takeAround } from './window.js'

test('what is read in a window far back is counted at once', () => {
  const c = core.newCore({ url: 'ws://a', speaks: ['ws'], device: 'd', client: 'test', stored: true, keep: 500, newest: 1, manualDelivered: true }, () => 0, () => 'id', 1e12)
  core.open(c, [])
  core.start(c)
  core.tokenCame(c, 'token')
  core.opened(c, 1)
  const entry = (seq: number): object => ({ conv: 'g1', seq: String(seq), from: 'bob', clientMsgId: `b${seq}`, counted: String(seq), text: 'x' })
  core.frame(c, 1, core.decode({ id: '1', welcome: { user: 'alice', inbox: 'i', historyId: 'h', capabilities: ['cursor', 'newest'] } }))
  core.frame(c, 1, core.decode({ id: '2', sync: { token: 'AQ==', convs: [{ conv: 'g1', kind: 'CONV_KIND_GROUP', head: '900', counted: '900', joined: '1', firstSeq: '1', newest: [entry(900)] }] } }))
  const page = core.decode({ history: { conv: 'g1', head: '900', firstSeq: '1', coveredFrom: '99', coveredTo: '101', more: true, messages: [99, 100, 101].map(entry) } })
  assert.ok(page.kind === 'history')
  takeAround(c, 'g1', newWindow(), page.history)
  core.markRead(c, 'g1', 100)
  assert.deepEqual([core.conversation(c, 'g1')?.unread, core.unreadTotal(c).messages], [800, 800])
})
