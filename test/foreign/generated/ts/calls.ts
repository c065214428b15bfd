// Calls methods of a Petrel server with the client that @hey-api/openapi-ts made of /openapi.json.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { createClient } from './generated/client'
import {
  accountServiceChangeSettings, accountServiceGetAccount, accountServiceGetSettings, adminServiceCreateUsers, adminServiceGetUser, adminServiceListUsers,
  adminServiceMintToken, adminServiceSendAs, conversationServiceCreateGroup, conversationServiceListMembers, conversationServiceSetRole,
  messageServiceGetHistory, messageServiceSend,
} from './generated/sdk.gen'

const [ann, ben, cat] = ['ts.ann', 'ts.ben', 'ts.cat']

/** A client of the server at url that calls with a token or key. */
function as(url: string | undefined, credential: string | undefined) {
  assert(url && credential)
  return { client: createClient({ baseUrl: url, auth: credential }), throwOnError: true } as const
}

async function main() {
  const operator = as(process.env.PETREL_ADMIN, process.env.PETREL_ADMIN_KEY)
  const made = await adminServiceCreateUsers({ ...operator, body: { users: [ann, ben, cat] } })
  assert.deepEqual(made.data.tokens?.map(t => [t.user, t.created]), [[ann, true], [ben, true], [cat, true]])
  const minted = await adminServiceMintToken({ ...operator, body: { user: ann, device: { id: 'laptop', name: "Ann's" } } })

  const first = await adminServiceListUsers({ ...operator, body: { prefix: 'ts.', limit: 2 } })
  const second = await adminServiceListUsers({ ...operator, body: { prefix: 'ts.', limit: 2, after: first.data.users?.at(-1)?.user } })
  assert.deepEqual([...(first.data.users ?? []), ...(second.data.users ?? [])].map(u => u.user), [ann, ben, cat])
  assert.deepEqual([first.data.more, second.data.more ?? false], [true, false])

  const sent = await adminServiceSendAs({ ...operator, body: { from: ann, send: { clientMsgId: randomUUID(), user: ben, text: 'hello 海燕' } } })
  const { conv, seq } = sent.data
  assert(conv && seq === '1', JSON.stringify(sent.data))

  // From here on as Ann.
  const user = as(process.env.PETREL_HTTP, minted.data.accessToken)
  const again = { clientMsgId: randomUUID(), conv, after: seq, text: 'how are you?' }
  for (const _ of [1, 2]) {
    assert.equal((await messageServiceSend({ ...user, body: again })).data.seq, '2')
  }
  const page = await messageServiceGetHistory({ ...user, body: { conv } })
  assert.deepEqual(page.data.messages?.map(m => [m.seq, m.from, m.text]), [['1', ann, 'hello 海燕'], ['2', ann, 'how are you?']])

  await accountServiceChangeSettings({ ...user, body: { values: { theme: 'dark' } } })
  const kept = await accountServiceGetSettings({ ...user, body: {} })
  assert.deepEqual(kept.data.settings?.map(s => s.values), [{ theme: 'dark' }])

  const group = await conversationServiceCreateGroup({ ...user, body: { title: 'boat', users: [ben, cat] } })
  assert(group.data.conv)
  await conversationServiceSetRole({ ...user, body: { conv: group.data.conv, user: cat, role: 'ROLE_ADMIN' } })
  const members = await conversationServiceListMembers({ ...user, body: { conv: group.data.conv } })
  assert.deepEqual(members.data.members?.map(m => [m.user, m.role]), [[ann, 'ROLE_OWNER'], [ben, 'ROLE_MEMBER'], [cat, 'ROLE_ADMIN']])

  const refused = await adminServiceGetUser({ ...operator, throwOnError: false, body: { user: 'ts.nobody' } })
  assert.deepEqual([refused.response?.status, refused.error?.petrelCode, refused.response?.headers.get('petrel-error')], [404, 'no_user', 'no_user'])
  const stranger = as(process.env.PETREL_HTTP, 'pt_default.ann.wrong')
  assert.equal((await accountServiceGetAccount({ ...stranger, throwOnError: false, body: {} })).error?.petrelCode, 'unauthenticated')
}

void main()
