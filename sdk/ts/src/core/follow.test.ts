import assert from 'node:assert/strict'
import { test } from 'node:test'
import * as core from './index.js'

// Another tab takes over in the turn in which the answer came: what is stored of the message
// is decided there now, and an older row would overwrite it.
test('a tab that follows stores nothing of what it was sending', () => {
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
  const drafted = core.draft(c, { conv: 'g1', text: 'hi' })
  assert.ok(drafted.refused === undefined)
  core.kept(c, drafted.outgoing.id)
  core.step(c)
  const sent = core.takeOutputs(c).frames.map(({ data }) => JSON.parse(String(data)) as { id?: string; send?: object }).find(({ send }) => send)
  core.stored(c, core.prepare(c))
  core.frame(c, 1, core.decode({ id: sent?.id ?? '', error: { code: 'not_member', settled: true } }))
  assert.equal(core.pending(c, 'g1')[0]?.state, 'rejected')
  core.follow(c)
  assert.deepEqual(core.prepare(c).rows.filter(({ key }) => key.startsWith('o/')), [])
})
