import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { createElement, StrictMode } from 'react'
import { renderToString } from 'react-dom/server'
import { Client } from '../src/index.js'
import { PetrelProvider, useConversations, useMessages, useStatus } from '../src/react.js'
import { FakeServer } from './fake_server.js'

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
})
