// A server with people, a group, and things that went wrong, for the console.
import type { Browser } from 'playwright-core'
import { Person } from './browser.js'
import { makeOperator } from './operator.js'
import { Server } from './server.js'

export interface ConsoleWorld {
  readonly server: Server
  readonly session: { readonly token: string; readonly name: string }
  readonly node: string
  readonly conv: string // a group of alice, bob and dave: bob is connected, dave has never been
  readonly seq: number // of a message of alice in it
  readonly clientMsgId: string
  readonly refused: string // client id of a message of alice that a frozen group refused
}

export async function makeConsoleWorld(browser: Browser): Promise<ConsoleWorld> {
  const server = await Server.start({ PETREL_LISTEN__HOSTS: 'console.test' })
  const session = await makeOperator(server, 'carol')
  const links = await server.users('alice', 'bob', 'dave', ...Array.from({ length: 60 }, (_, i) => `user${String(i).padStart(2, '0')}`))
  const group = async (title: string, ...members: readonly string[]): Promise<string> => (await server.admin('AdminService/CreateGroup', { title, members: members.map((user, i) => i === 0 ? { user, role: 'ROLE_OWNER' } : { user }) }) as { conv: string }).conv
  const conv = await group('Harbour office', 'alice', 'bob', 'dave')
  const frozen = await group('Harbour, closed', 'alice', 'bob')
  for (let i = 0; i < 12; i++) await group(`Boat ${i + 1}`, 'alice', `user${i + 10}`)
  await (await Person.open(browser, links['bob'] ?? '')).ready()
  const clientMsgId = crypto.randomUUID()
  const { seq } = await server.sendAs('alice', { conv, text: 'The crane is free from ten on.', clientMsgId })
  await server.admin('AdminService/FreezeConversation', { conv: frozen, frozen: true })
  const refused = crypto.randomUUID()
  const answer = await fetch(`${server.url}/petrel.v1.MessageService/Send`, {
    method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${server.tokens['alice']}` }, body: JSON.stringify({ conv: frozen, text: 'Hello?', clientMsgId: refused }),
  })
  if (answer.ok) throw new Error('a frozen group has taken a message')
  await server.petrel('backup', '--to', `${server.folder}/backups`)
  const { answeredBy: node = '' } = await server.admin('AdminService/GetCluster', {}) as { answeredBy?: string }
  return { server, session, node, conv, seq, clientMsgId, refused }
}
