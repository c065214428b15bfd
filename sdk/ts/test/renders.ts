// Counts which components React renders again, in a page.
import { createElement, type ReactElement } from 'react'
import { flushSync } from 'react-dom'
import { createRoot } from 'react-dom/client'
import { Client } from '../src/index.js'
import { PetrelProvider, useConversation, useConversations, useHistory, useMessages, usePending, usePendingTo, useStatus, useUnread } from '../src/react.js'
import type { ServerFrameJson } from '../src/wire/frames_gen.js'
import { FakeServer, usual } from './fake_server.js'

const convs = ['g1', 'g2']
const newest = (conv: string) => ({ conv, seq: '1', from: 'bob', clientMsgId: `b-${conv}`, timeMs: '1', counted: '1', text: 'first' })

/** The names of the components that were rendered again after each of these, sorted. */
export async function renders(): Promise<Readonly<Record<string, readonly string[]>>> {
  const server = new FakeServer()
  server.answer = (f) => f.sync
    ? { sync: { token: 'AQ==', convs: convs.map((conv) => ({ conv, kind: 'CONV_KIND_GROUP', head: '1', counted: '1', joined: '1', newest: [newest(conv)] })) } }
    : usual(f)
  const client = new Client({ url: 'ws://a', token: 't', transport: server })
  let rendered: string[] = []
  const counts = (name: string, read: () => unknown) => function Counted(): ReactElement {
    read()
    rendered.push(name)
    return createElement('p')
  }
  const components = [
    ...convs.flatMap((conv) => [
      counts(`row ${conv}`, () => useConversation(conv)), counts(`messages ${conv}`, () => useMessages(conv)), counts(`pending ${conv}`, () => usePending(conv)),
    ]),
    counts('list', useConversations), counts('unread', useUnread), counts('status', useStatus), counts('pending to carol', () => usePendingTo('carol')),
    counts('history g1', () => useHistory('g1')),
  ]
  const root = createRoot(document.body)
  flushSync(() => root.render(createElement(PetrelProvider, { client, children: components.map((c, i) => createElement(c, { key: i })) })))
  const frame = (): Promise<unknown> => new Promise((resolve) => requestAnimationFrame(resolve))
  /** The client tells of a change and React renders it before the page is drawn, the first time or the next. */
  const settled = async (): Promise<void> => {
    for (let n = 0; n < 3; n++) await frame()
  }
  while (!client.status().synced) await settled()
  await settled()
  const after = async (what: () => unknown): Promise<readonly string[]> => {
    rendered = []
    await what()
    await settled()
    return rendered.sort()
  }
  const push = (events: NonNullable<ServerFrameJson['events']>) => () => server.push({ events })
  const result = {
    nothing: await after(() => server.push({ ping: {} })),
    message: await after(push({ messages: [{ ...newest('g1'), seq: '2', clientMsgId: 'b2', counted: '2' }] })),
    typing: await after(push({ signals: [{ conv: 'g2', from: 'bob', kind: 'typing', head: '1', id: '1', timeMs: '1' }] })),
    sent: await after(() => client.send({ conv: 'g2', text: 'x' })),
    'sent to a user': await after(() => client.send({ user: 'carol', text: 'x' })),
  }
  root.unmount()
  await client.close()
  return result
}

Object.assign(globalThis, { renders })
