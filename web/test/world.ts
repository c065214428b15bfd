// People who talk, for pictures of the web chat: names of all kinds, and messages with everything
// that a message can have.
import type { Page } from 'playwright-core'
import type { Server } from './server.js'

/** The display names of users. */
const names: Readonly<Record<string, string>> = {
  alice: 'Alice Moreau', bob: 'Bob Lindqvist', carol: '陈晓 Carol', dave: 'Dave 🚲 Okafor', farid: 'فريد الحسن', noa: 'נועה לוי', wang: '王小明', mika: '🦊 Mika 🌈',
  erin: 'Erin Featherstonehaugh-Cholmondeley, Third Viscountess of Slough',
  'a.user.name.that.is.as.long.as.one.may.be-0123456789-01234567890': 'ThisNameHasNoBlankInItAndIsAsLongAsTheServerLetsAnybodyHaveOne12',
}

const minute = 60_000
const hour = 60 * minute
const day = 24 * hour

/** A message of which the server says that it cannot tell any more whether it is stored. */
export const fateless = 'Shall we meet at the boat?'

/** The server with the conversations of alice. */
export interface World {
  readonly link: (user: string) => string
  readonly mixed: string // a group with messages of all kinds
  readonly crowd: string // a group with many members, and 1,000 unread messages
  readonly former: string // a group that alice was removed from
  readonly boat: string
  readonly stranger: string // a user who has asked alice to become a contact
  readonly asked: string // a user whom alice has asked
  /** Has a page know the names and the drafts, and see messages at the times at which people would have written them. */
  readonly prepare: (p: Page) => Promise<Wire>
}

/** The connection of a page, which can be cut. */
export interface Wire {
  readonly cut: () => void
  readonly mend: () => void
}

export async function makeWorld(server: Server): Promise<World> {
  const demo = JSON.parse(await server.petrel('demo', '--json')) as { users: { user: string; token: string }[]; convs: { conv: string }[] }
  const tokens = new Map(demo.users.map((u) => [u.user, u.token]))
  for (const [user, link] of Object.entries(await server.users(...Object.keys(names).filter((u) => !tokens.has(u)), ...extras))) tokens.set(user, link.split('#t=')[1] ?? '')
  const as = async (user: string, method: string, request: object): Promise<unknown> => {
    const answer = await fetch(`${server.url}/petrel.v1.${method}`, {
      method: 'POST', headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${tokens.get(user)}` }, body: JSON.stringify(request),
    })
    if (!answer.ok) throw new Error(`${method}: ${answer.status} ${await answer.text()}`)
    return answer.json()
  }
  for (const [user, displayName] of Object.entries(names)) await as(user, 'AccountService/UpdateAccount', { displayName })

  const times = new Map<string, Map<number, number>>() // when a message is to have been written, by conversation and seq
  const now = Date.now()
  const at = (conv: string, seq: number, agoMs: number): void => {
    const of = times.get(conv) ?? new Map<number, number>()
    times.set(conv, of.set(seq, now - agoMs))
  }
  const say = async (agoMs: number, from: string, to: { readonly conv: string } | { readonly user: string }, text: string, rel?: object): Promise<{ conv: string; seq: number }> => {
    const sent = await server.sendAs(from, { ...to, text, ...(rel ? { rel } : {}) })
    at(sent.conv, sent.seq, agoMs)
    return sent
  }
  const react = async (m: { conv: string; seq: number }, emoji: string, ...users: readonly string[]): Promise<void> => {
    for (const user of users) await as(user, 'MessageService/React', { conv: m.conv, seq: m.seq, emoji })
  }
  const group = async (title: string, owner: string, ...members: readonly string[]): Promise<string> => {
    const { conv } = await server.admin('AdminService/CreateGroup', { title, members: [{ user: owner, role: 'ROLE_OWNER' }, ...members.map((m) => ({ user: m }))] }) as { conv: string }
    return conv
  }
  const read = (user: string, { conv, seq }: { conv: string; seq: number }): Promise<unknown> => as(user, 'MessageService/MoveCursor', { conv, read: seq, delivered: seq })
  const set = (conv: string, values: Readonly<Record<string, string>>): Promise<unknown> => as('alice', 'AccountService/ChangeSettings', { conv, values })

  // A group with all that messages can be.
  const mixed = await group('Design review 设计评审', 'alice', 'bob', 'carol', 'dave', 'farid', 'noa', 'wang', 'mika', ...extras.slice(0, 14))
  const to = { conv: mixed }
  at(mixed, 1, 3 * day)
  await as('alice', 'ConversationService/SetRole', { conv: mixed, user: 'bob', role: 'ROLE_ADMIN' })
  at(mixed, 2, 3 * day)
  await say(2 * day, 'bob', to, 'The new sidebar is in `main`. Build it with:\n```\nmake web && make serve\n# then open http://127.0.0.1:8080/#/alice and try a very long line, which has to scroll inside of its block\n```')
  const first = await say(2 * day - minute, 'bob', to, 'Notes are at https://example.org/design/2026/sidebar?tab=all — **please read them** before _Thursday_, ~~Friday is too late~~.')
  await react(first, '👍', 'alice', 'carol', 'dave')
  await react(first, '🎉', 'wang')
  await say(2 * day - 3 * minute, 'alice', to, 'Reading now.')
  await say(day + 2 * hour, 'carol', to, '我看完了，左边的列表比以前清楚多了。头像和名字的间距可以再小一点吗？另外，深色模式下分隔线几乎看不见。')
  await say(day + 2 * hour - minute, 'wang', to, '同意，特别是深色模式。', { replyTo: '5' })
  await as('alice', 'ConversationService/AddMembers', { conv: mixed, users: ['erin'] })
  at(mixed, 8, day + hour)
  const question = await say(5 * hour, 'dave', to, '@alice can you look at the contrast of the times? They are hard to read in the sun ☀️', { mentions: ['alice'] })
  const answer = await say(5 * hour - 2 * minute, 'alice', to, 'Sure. 4.5:1 everywhere, or I do not merge it.', { replyTo: String(question.seq) })
  await react(answer, '❤️', 'dave', 'bob')
  await react(answer, '😂', 'carol', 'alice')
  const edited = await say(5 * hour - 3 * minute, 'alice', to, 'I have it on my list for today')
  await server.sendAs('alice', { ...to, edit: { target: String(edited.seq), text: 'I have it on my list for today, right after lunch' } })
  const gone = await say(4 * hour, 'mika', to, 'oops')
  await server.sendAs('mika', { ...to, recall: { target: String(gone.seq) } })
  await say(4 * hour - minute, 'mika', to, '🦊')
  await say(4 * hour - minute, 'mika', to, 'A_word_that_never_ends_'.repeat(9))
  await say(3 * hour, 'farid', to, 'مرحبا بالجميع! هل يعمل النص من اليمين إلى اليسار؟ I think so.')
  await say(3 * hour - minute, 'noa', to, 'כן, נראה טוב. ראיתם את https://example.org/rtl?')
  await server.sendAs('bob', { ...to, type: 'poll', data: 'AAEC' })
  const pinned = await say(100 * minute, 'bob', to, 'Decision: we ship on Thursday at 16:00 UTC. Whoever objects says so here, with a screenshot.')
  await as('alice', 'MessageService/Pin', { conv: mixed, seq: pinned.seq })
  await react(pinned, '👍', 'alice', 'carol', 'dave', 'farid', 'noa', 'wang', 'mika')
  for (const [i, emoji] of ['❤️', '🔥', '🎉', '😮', '😢', '🙏', '👀', '🚀', '💯', '✅', '🐦', '⛵', '🌊', '☀️', '🍀', '🎯', '💪', '🤝', '🙌'].entries()) await react(pinned, emoji, ...extras.slice(i % 7 * 2, i % 7 * 2 + 1 + i % 2))
  await say(99 * minute, 'alice', to, 'One\nmessage\nof several\nlines, the last of which is quite a bit longer than those before it')
  await say(98 * minute, 'alice', to, 'ok')
  await say(97 * minute, 'alice', to, '👍')
  const boat = demo.convs[0]?.conv ?? ''
  const { seq: newestOfBoat } = await say(96 * minute, 'bob', { conv: boat }, 'The ferry timetable for Saturday: first one at 7:10')
  const forwarded = await as('alice', 'MessageService/Send', { conv: mixed, clientMsgId: crypto.randomUUID(), rel: { forwardOf: { conv: boat, seq: String(newestOfBoat) } } }) as { seq: string }
  at(mixed, Number(forwarded.seq), 95 * minute)
  const own = await say(40 * minute, 'alice', to, 'The last thing that I have read myself.')
  await read('alice', own)
  await read('bob', own)
  await read('carol', own)
  const root = await say(30 * minute, 'carol', to, '收到，明天见！', { replyTo: String(pinned.seq) })
  await say(20 * minute, 'alice', to, 'Which dock do you mean?', { thread: String(root.seq) })
  await say(19 * minute, 'carol', to, '三号码头，北边那个', { thread: String(root.seq) })
  await say(12 * minute, 'dave', to, '@alice the screenshots are there now', { mentions: ['alice'] })

  // A crowd that has said a lot.
  const crowd = await group('Harbour news 港口新闻 – everybody who has a boat, a berth or an opinion', 'bob', 'alice', 'carol', ...extras)
  at(crowd, 1, 9 * day)
  for (let i = 0; i < 1100; i++) await say(9 * hour - i * 25_000, extras[Math.floor(i / 3) % extras.length] ?? 'bob', { conv: crowd }, `${sayings[i % sayings.length]}`)
  await read('alice', { conv: crowd, seq: 60 })
  await set(crowd, { muted_until: String(Date.UTC(2100, 0)) })

  // A group that alice is no member of any more.
  const former = await group('Old project', 'bob', 'alice', 'carol')
  await say(6 * day, 'alice', { conv: former }, 'Everything is handed over. Bye!')
  await say(6 * day - minute, 'bob', { conv: former }, 'Thank you for all of it!')
  await as('bob', 'ConversationService/RemoveMembers', { conv: former, users: ['alice'] })
  for (const seq of [1, 4]) at(former, seq, 6 * day)

  // Others who write to her.
  await say(20 * hour, 'erin', { user: 'alice' }, 'Good morning! I hope that this finds you well, and that the harbour is not as windy as the Times would have it.')
  await say(day, 'farid', { user: 'alice' }, 'صباح الخير، متى نلتقي؟')
  await say(day - minute, 'alice', { user: 'farid' }, 'At ten, if that suits you (عشرة صباحا)')
  await say(2 * day, 'noa', { user: 'alice' }, 'שבוע טוב!')
  await read('alice', await say(4 * day, 'mika', { user: 'alice' }, 'https://example.org/fox.gif 😂😂😂'))
  const loud = await say(3 * hour, 'a.user.name.that.is.as.long.as.one.may.be-0123456789-01234567890', { user: 'alice' }, 'Supercalifragilisticexpialidocious'.repeat(3))
  await set(loud.conv, { unread: '1' })
  await read('alice', loud)
  const archived = await say(20 * day, 'dave', { user: 'alice' }, 'Long ago')
  await set(archived.conv, { archived: '1' })
  await set(boat, { pinned: '1' })

  // Her contacts, and requests that wait.
  const [stranger = '', quiet = '', asked = ''] = extras.slice(20)
  await server.admin('AdminService/SetContacts', { pairs: ['bob', 'carol', 'dave', 'farid', 'noa', 'wang', 'mika', 'erin', ...extras.slice(0, 4)].map((other) => ({ user: 'alice', other })) })
  await as('alice', 'ContactService/SetRemark', { user: 'dave', remark: 'Dave from dock 3 – call before nine, never after' })
  await as(stranger, 'AccountService/UpdateAccount', { displayName: 'Sam Skipper' })
  await as(stranger, 'ContactService/RequestContact', { user: 'alice', greeting: 'Hello! We met on the ferry to the islands last summer, and you told me about the boat that nobody wanted. I think that I have found somebody who wants it, so let us talk about it some time.' })
  await as(quiet, 'ContactService/RequestContact', { user: 'alice' })
  await as('alice', 'ContactService/RequestContact', { user: asked, greeting: '你好，我是码头的 Alice' })

  const drafts = { 'alice:draft:@noa': 'Thank you, and', 'alice:device': 'the-laptop-of-alice' }
  return {
    mixed, crowd, former, boat, stranger, asked, link: (user) => `${server.url}/#t=${tokens.get(user)}`,
    prepare: async (p) => {
      await p.addInitScript((given) => {
        const keepGivenDrafts = (): void => {
          for (const key of Object.keys(localStorage)) if (key.startsWith('petrel:alice:draft:')) localStorage.removeItem(key)
          for (const [name, text] of Object.entries(given)) localStorage.setItem(`petrel:${name}`, text)
        }
        keepGivenDrafts()
        Object.assign(globalThis, { keepGivenDrafts }) // for views that are drawn without a load
        document.hasFocus = () => false // so nothing becomes read
      }, drafts)
      let whole = true
      const open = new Set<() => void>()
      await p.routeWebSocket(/\/v1\/ws/, (page) => {
        if (!whole) return void page.close({ code: 4000 })
        const there = page.connectToServer()
        const end = (): void => void Promise.all([page.close({ code: 4000 }), there.close()])
        open.add(end)
        page.onMessage((m) => {
          if (String(m).includes(fateless)) page.send(JSON.stringify({ id: (JSON.parse(String(m)) as { id: string }).id, error: { code: 'too_old' } }))
          else there.send(m)
        })
        there.onMessage((m) => page.send(typeof m === 'string' ? dated(m, times) : m))
      })
      return {
        cut: () => {
          whole = false
          for (const end of open) end()
          open.clear()
        },
        mend: () => {
          whole = true
        },
      }
    },
  }
}

const extras: readonly string[] = Array.from({ length: 57 }, (_, i) => `${['skipper', 'sailor', 'pilot', 'rower', 'diver'][i % 5]}${i}`)

const sayings = ['Fog until nine, then clear', 'The crane is free again', '码头 3 号灯坏了', 'Who has left a bicycle at gate B?', 'Thank you!', 'Water is off tomorrow from 8 to 10', '👍', 'Seals at the breakwater 🦭', 'Rope found, blue, 12 m']

/** A frame of the server in which entries have the times that the world gives them. */
function dated(frame: string, times: ReadonlyMap<string, ReadonlyMap<number, number>>): string {
  if (!frame.includes('timeMs')) return frame
  const walk = (value: unknown, outer: string): unknown => {
    if (Array.isArray(value)) return value.map((v) => walk(v, outer))
    if (typeof value !== 'object' || value === null) return value
    const of = value as Readonly<Record<string, unknown>>
    const conv = typeof of['conv'] === 'string' ? of['conv'] : outer
    const ms = 'timeMs' in of ? times.get(conv)?.get(Number(of['seq'])) : undefined
    return Object.fromEntries(Object.entries(of).map(([key, v]) => [key, key === 'timeMs' && ms !== undefined ? String(ms) : walk(v, conv)]))
  }
  return JSON.stringify(walk(JSON.parse(frame), ''))
}
