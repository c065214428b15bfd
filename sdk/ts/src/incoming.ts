import {
  beginIncoming, type Change, type GetHistory, heldAfter, type HistoryPage, type Message, messageOf, moveTo, reading, type Reading,
  status,
} from './core/index.js'
import { isPetrelError, refused } from './errors.js'
import { leaving } from './subscription.js'
import type { CoreDriver } from './coredriver.js'

/**
 * After this many entries that are no incoming messages, the position is stored. So a restart reads at most
 * this many of them again.
 */
const skipEvery = 64

interface Client {
  readonly driver: CoreDriver
  readonly changes: (signal: AbortSignal) => AsyncGenerator<Change, void, void>
  readonly history: (q: GetHistory, signal: AbortSignal) => Promise<HistoryPage>
  readonly markRead: (conv: string, seq: number) => void
}

/**
 * Returns an iterator over incoming messages. It ends when signal is aborted, the loop is left, or the client closes.
 * Spec: S-18.4.
 */
export function incoming(client: Client, signal?: AbortSignal): AsyncGenerator<Message, void, void> {
  const left = new AbortController()
  return leaving(read(client, left, signal), () => left.abort())
}

async function* read(client: Client, left: AbortController, signal?: AbortSignal): AsyncGenerator<Message, void, void> {
  const { driver } = client
  await driver.open()
  if (driver.read((core) => core.incoming.reading)) throw refused('invalid', 'another loop reads the messages')
  driver.apply((core) => {
    core.incoming.reading = true
  })
  const leave = (): void => left.abort(signal?.reason)
  signal?.addEventListener('abort', leave)
  if (signal?.aborted) leave()
  const reader = new Reader(client, left.signal)
  try {
    await reader.begin()
    for (;;) {
      const m = await reader.next()
      if (!m) return
      yield m
      await reader.finish(m)
    }
  } finally {
    signal?.removeEventListener('abort', leave)
    left.abort()
    driver.apply((core) => {
      core.incoming.reading = false
    })
  }
}

class Reader {
  readonly #client: Client
  readonly #signal: AbortSignal
  readonly #changes: AsyncGenerator<Change, void, void>
  readonly #queue = new Set<string>() // conversations to look at, in turn
  readonly #convs = new Map<string, Reading>()

  constructor(client: Client, signal: AbortSignal) {
    this.#client = client
    this.#signal = signal
    this.#changes = client.changes(signal)
  }

  /**
   * Runs when incoming is used for the first time: starts each known conversation at its read cursor. It first
   * waits until the list of conversations is complete, because a conversation that appears later starts at its
   * first message.
   */
  async begin(): Promise<void> {
    for (;;) {
      const rows = this.#client.driver.apply(beginIncoming)
      if (rows) return this.#client.driver.write(rows, false)
      if (!await this.#look()) return
    }
  }

  /** Waits for a change and queues its conversations. It returns false when the loop is over. */
  async #look(): Promise<boolean> {
    const { value, done } = await this.#changes.next()
    if (done) return false
    for (const conv of value.conversations) this.#queue.add(conv)
    return true
  }

  /** Waits for the next incoming message. Conversations take turns, so a busy one does not hold up the others. */
  async next(): Promise<Message | undefined> {
    for (;;) {
      for (const conv of this.#queue) {
        this.#queue.delete(conv)
        const m = await this.#nextOf(conv)
        if (this.#signal.aborted) return undefined
        if (!m) continue
        this.#queue.add(conv)
        return m
      }
      if (!await this.#look()) return undefined
    }
  }

  /** Returns the next incoming message of one conversation, if there is one. */
  async #nextOf(conv: string): Promise<Message | undefined> {
    let x = this.#convs.get(conv)
    if (!x) {
      x = this.#client.driver.read((core) => reading(core, conv))
      this.#convs.set(conv, x)
    }
    for (;;) {
      const m = await this.#entry(conv, x)
      if (!m) return undefined
      x.at = { ...x.at, seq: m.seq }
      const isText = m.text !== undefined || m.data !== undefined // a recalled message has neither
      if (isText && m.from !== this.#client.driver.read((core) => status(core).user)) return m
      if (x.at.seq >= x.stored + skipEvery) await this.#store(conv, x)
    }
  }

  /** Returns the next entry above x.at: a held one, or else one of the history. undefined: there is none now. */
  async #entry(conv: string, x: Reading): Promise<Message | undefined> {
    for (;;) {
      const held = this.#client.driver.read((core) => heldAfter(core, conv, x))
      if (held === 'none') return undefined
      if (held) return held
      const next = x.page.find((m) => m.seq > x.at.seq)
      if (next) return messageOf(next)
      let page: HistoryPage
      try {
        page = await this.#client.history({ conv, after: x.at.seq }, this.#signal)
      } catch (why) { // the history cannot be read now; a later change queues the conversation again
        if (this.#signal.aborted || isPetrelError(why)) return undefined
        throw why
      }
      if (this.#client.driver.read((core) => status(core).history) !== x.at.history) continue // the page may be of the former history
      x.page = page.messages
      if (page.messages.length > 0) continue
      x.at = { ...x.at, seq: Math.max(x.at.seq, page.head) } // the user may read none of these entries
      return undefined
    }
  }

  /**
   * Stores the position after a message that the application has finished, and moves the read cursor over the
   * message.
   */
  async finish(m: Message): Promise<void> {
    const x = this.#convs.get(m.conv)
    if (x) await this.#store(m.conv, x)
    this.#client.markRead(m.conv, m.seq)
  }

  async #store(conv: string, x: Reading): Promise<void> {
    x.stored = x.at.seq
    const row = this.#client.driver.read((core) => moveTo(core, conv, x.at))
    await this.#client.driver.write([row], false)
  }
}
