// A window of older entries of a long conversation.
import type { CallOptions } from './api.js'
import type { Client } from './client.js'
import { type GetHistory, type HistoryPage, type Message, type Range } from './core/index.js'
import { sameList } from './core/change.js'
import { emptyWindow, inWindow, newWindow, takeAfter, takeAround, takeBefore, type Window, type WindowEnds, windowView } from './core/window.js'
import { isPetrelError } from './errors.js'

const pageEntries = 100 // entries of a page by default

/** The content of a HistoryWindow at one moment. */
export interface HistoryView {
  /** Oldest first. */
  readonly messages: readonly Message[]
  /** The user may read no older entry. */
  readonly isOldest: boolean
  /** The messages include the newest entry, and new ones are added. */
  readonly isNewest: boolean
}

/**
 * A part of a conversation that a person reads, possibly far older than the kept entries. At first it shows the
 * newest entries, as `Client.messages` does. It is extended page by page in both directions, or jumps to another
 * place without the entries between. Edits, recalls, reactions, receipts and quotes apply to it as to the newest
 * entries. Besides the kept entries it has at most 600; more push out those at the other end. A client has one
 * window of each conversation: a second one empties the first.
 */
export class HistoryWindow {
  readonly #client: Client
  readonly #conv: string
  readonly #window: Window = newWindow()
  #view: HistoryView = { messages: [], isOldest: false, isNewest: true }
  #fresh = false // #view is up to date
  #users = 0
  #jumps = 0

  constructor(client: Client, conv: string) {
    this.#client = client
    this.#conv = conv
  }

  /**
   * Calls f when the view may have changed, until the returned function is called. When the last subscription ends,
   * the window shows the newest entries again.
   */
  readonly subscribe = (f: () => void): (() => void) => {
    this.#users++
    const end = this.#client.subscribe((change) => {
      if (!change.conversations.has(this.#conv)) return
      this.#fresh = false
      f()
    })
    return () => {
      end()
      if (--this.#users === 0) this.toNewest()
    }
  }

  /** Returns the present view: the same object while nothing has changed. */
  readonly view = (): HistoryView => {
    if (!this.#fresh || this.#users === 0) this.#look()
    return this.#view
  }

  #look(): WindowEnds | undefined {
    const seen = this.#driver.read((core) => windowView(core, this.#conv, this.#window))
    this.#fresh = true
    if (!seen) return undefined
    const { isOldest, isNewest } = seen.ends
    const messages = sameList(this.#view.messages, seen.messages)
    const old = this.#view
    if (messages !== old.messages || isOldest !== old.isOldest || isNewest !== old.isNewest) this.#view = { messages, isOldest, isNewest }
    return seen.ends
  }

  /**
   * Loads up to limit entries before the shown ones, and returns false if there are none. While the client keeps
   * fewer entries than its bound, they are kept too, as by `Client.older`, and can be read without a connection.
   * Errors are those of `Client.history`, except that a range that the server cannot read is skipped, and listed in
   * `Conversation.damaged`.
   */
  async older(limit = pageEntries, options: CallOptions = {}): Promise<boolean> {
    const ends = this.#look()
    if (!ends || ends.isOldest) return false
    if (ends.isEmpty && ends.fits) {
      await this.#client.older(this.#conv, limit, options)
      return true
    }
    const before = ends.from + 1
    await this.#page({ before, limit }, options, (page) => this.#driver.apply((core) => takeBefore(core, this.#conv, this.#window, before, page)))
    return true
  }

  /** Loads up to limit entries after the shown ones. It returns false if the newest entry is shown already. */
  async newer(limit = pageEntries, options: CallOptions = {}): Promise<boolean> {
    const ends = this.#look()
    if (!ends || ends.isNewest) return false
    const after = ends.to
    await this.#page({ after, limit }, options, (page) => this.#driver.apply((core) => takeAfter(core, this.#conv, this.#window, after, page)))
    return true
  }

  /**
   * Shows the entry seq and about limit entries around it. If the window has that entry already, nothing changes.
   * It returns false if the user can read no such entry, or another jump came later.
   */
  async around(seq: number, limit = pageEntries, options: CallOptions = {}): Promise<boolean> {
    const has = (): boolean => this.#driver.read((core) => inWindow(core, this.#conv, this.#window, seq))
    return has() || await this.#jump({ around: seq, limit }, options) !== undefined && has()
  }

  /**
   * Shows the first entry at or after timeMs (Unix ms), or else the last entry of all, and returns its seq. undefined:
   * the user can read no entry, or another jump came later.
   */
  async at(timeMs: number, limit = pageEntries, options: CallOptions = {}): Promise<number | undefined> {
    const page = await this.#jump({ atMs: Math.max(1, Math.floor(timeMs)), limit }, options)
    return (page?.messages.find((m) => m.timeMs >= timeMs) ?? page?.messages.at(-1))?.seq
  }

  /** Shows the newest entries again. */
  toNewest(): void {
    this.#jumps++
    this.#fresh = false
    this.#driver.apply((core) => emptyWindow(core, this.#conv, this.#window))
  }

  async #jump(q: Omit<GetHistory, 'conv'>, options: CallOptions): Promise<HistoryPage | undefined> {
    const jump = ++this.#jumps
    let taken: HistoryPage | undefined
    await this.#page(q, options, (page) => {
      if (!('messages' in page)) throw new Error('the server answered a jump with a range')
      if (jump !== this.#jumps) return
      taken = page
      this.#driver.apply((core) => takeAround(core, this.#conv, this.#window, page))
    })
    return taken
  }

  /**
   * Asks for a page, and passes it to `take`, unless the history id has changed meanwhile. Except for jumps, an
   * unreadable range is passed in place of a page.
   */
  async #page(q: Omit<GetHistory, 'conv'>, options: CallOptions, take: (page: HistoryPage | Range) => void): Promise<void> {
    const { history } = this.#client.status()
    let page: HistoryPage | Range
    try {
      page = await this.#client.history({ conv: this.#conv, ...q }, options)
    } catch (why) {
      if (!isPetrelError(why) || !why.damaged || 'around' in q || 'atMs' in q) throw why
      page = why.damaged
    }
    if (history !== '' && this.#client.status().history !== history) return
    take(page)
    this.#fresh = false
  }

  /** The driver of the client, in whose core the window works. So clients without a window need no code for it. */
  get #driver(): Client['driver'] {
    return this.#client['driver']
  }
}
