import assert from 'node:assert/strict'
import { test } from 'node:test'
import { address, parseRoute } from './route.js'

test('addresses are read as they are written', () => {
  for (const to of [
    {}, { account: 'alice' }, { account: 'a+b@c.d', conv: 'gAb-_9' }, { account: 'alice', user: 'bob' }, { account: 'alice', conv: 'g', info: true }, { account: 'alice', conv: 'g', info: true, person: 'bob' }, { account: 'alice', conv: 'g', person: 'bob' }, { account: 'alice', panel: 'devices' as const }, { account: 'alice', conv: 'g', thread: 5 }, { account: 'alice', user: 'bob', thread: 12 }, { account: '*' }, { account: 'alice', user: '50%25' },
  ]) assert.deepEqual(parseRoute(address(to)), { account: '', conv: '', user: '', info: false, person: '', thread: 0, panel: '', ...to })
  assert.equal(parseRoute('#/alice/c/g/t/1e3').thread, 0)
  assert.deepEqual(parseRoute('#/alice/u/%E0%A4%A'), { account: 'alice', conv: '', user: '', info: false, person: '', thread: 0, panel: '' })
})
