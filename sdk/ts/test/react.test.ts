import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createElement, StrictMode } from 'react'
import { renderToString } from 'react-dom/server'
import { Client } from '../src/index.js'
import type { HistoryWindow } from '../src/history.js'
import { PetrelProvider, useContact, useContacts, useConversations, useHistory, useMessages, useStatus } from '../src/react.js'
import { TestServer } from '../src/testing.js'
import { FakeServer, usual } from './fake_server.js'
import { until } from './until.js'

describe('react', { timeout: 300_000 }, () => {
  function Chat(): ReturnType<typeof createElement> {
    const titles = useConversations().map((v) => v.title).join()
    return createElement('p', {}, useStatus().state, titles, useMessages('g1').map((m) => m.text).join())
  }

  test('a page is rendered on a server, where nothing connects', () => {
    const server = new FakeServer()
    const client = new Client({ url: 'ws://a', token: 't', transport: server })
    const html = renderToString(createElement(StrictMode, {}, createElement(PetrelProvider, { client }, createElement(Chat))))
    assert.equal(html, '<p>offline</p>')
    assert.deepEqual(server.got, [])
  })

  test('a component shows the contacts', async () => {
    const server = new FakeServer()
    const personal = [{ user: 'carol', name: 'contact_sent', value: '2 hello', seq: '1' }, { user: 'bob', name: 'contact', value: '1 Bobby', seq: '2' }]
    server.answer = (f) => (f.sync ? { sync: { token: 'AQ==', personal } } : usual(f))
    const client = new Client({ url: 'ws://a', token: 't', transport: server })
    function People(): ReturnType<typeof createElement> {
      return createElement('p', {}, useContacts().map((c) => c.user).join(), useContact('bob')?.remark, useContact('carol')?.greeting, useContact('dave')?.user)
    }
    client.connect()
    await until(client, () => client.status().synced)
    assert.equal(renderToString(createElement(PetrelProvider, { client }, createElement(People))).replaceAll('<!-- -->', ' '), '<p>bob,carol Bobby hello</p>')
    await client.close()
  })

  test('a component shows a place of a conversation, and goes on from there', async () => {
    const server = new TestServer()
    const boat = server.group('boat', 'alice', 'bob')
    for (let n = 1; n <= 60; n++) server.write('bob', { conv: boat, text: `line ${n}` })
    const client = new Client({ url: 'ws://test', token: 'alice', transport: server })
    const windows: HistoryWindow[] = []
    function Place(): ReturnType<typeof createElement> {
      const { window, view } = useHistory(boat)
      windows.push(window)
      return createElement('p', {}, `${view.messages[0]?.text} to ${view.messages.at(-1)?.text}, ${view.isOldest}`)
    }
    const rendered = (): string => renderToString(createElement(PetrelProvider, { client }, createElement(Place)))
    client.connect()
    await until(client, () => client.status().synced)
    assert.equal(rendered(), '<p>line 11 to line 60, false</p>')
    await windows[0]?.older()
    assert.equal(rendered(), '<p>line 1 to line 60, true</p>')
    await client.close()
  })
})
