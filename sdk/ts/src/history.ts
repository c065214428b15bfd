// A window far back in a long conversation, for applications that show one.
import type { CallOptions } from './api.js'
import type { Client } from './client.js'
import { type GetHistory, type HistoryPage, type Message, type Range } from './core/index.js'
import { sameList } from './core/change.js'
import { emptyWindow, inWindow, newWindow, takeAfter, takeAround, takeBefore, type Window, type WindowEnds, windowView } from './core/window.js'
import { isPetrelError } from './errors.js'

const pageEntries = 100 // of each page that is asked for

/** The content of a HistoryWindow at one moment. */
export interface HistoryView {
  /** Oldest first. */
  readonly messages: readonly Message[]
  /** Before them is nothing that the user may read. */
  readonly isOldest: boolean
  /** They reach to the newest entry, and new ones follow. */
  readonly isNewest: boolean
}

/**
 * A part of a conversation that a person reads, which may be far above the kept entries: at first the newest entries, as `Client.messages` has them.
 * It continues page by page in both directions, or jumps without the entries between. Edits, recalls, reactions, receipts and quotes apply to it as
 * to the newest entries. It has at most 600 entries beside those that the client keeps: more push out those at the other end. A client has one window
 * of each conversation; a second one empties the first.
 */
export class HistoryWindow {
  readonly #client: Client
  readonly #conv: string
  readonly #window: Window = newWindow()
  #view: HistoryView = { messages: [], isOldest: false, isNewest: true }
  #fresh = false // #view is what the client has now
  #users = 0
  #jumps = 0

  constructor(client: Client, conv: string) {
    this.#client = client
    this.#conv = conv
  }

  /** Has f called when the view may have changed, until the function that it returns is called. After the last one the window is empty again. */
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

  /** The present view: the same object while nothing has changed. */
  readonly view = (): HistoryView => {
    if (!this.#fresh || this.#users === 0) this.#look()
    return this.#view
  }

  #look(): WindowEnds | undefined {
    const seen = this.#turns.read((core) => windowView(core, this.#conv, this.#window))
    this.#fresh = true
    if (!seen) return undefined
    const { isOldest, isNewest } = seen.ends
    const messages = sameList(this.#view.messages, seen.messages)
    const old = this.#view
    if (messages !== old.messages || isOldest !== old.isOldest || isNewest !== old.isNewest) this.#view = { messages, isOldest, isNewest }
    return seen.ends
  }

  /**
   * Reads up to limit entries from before those that it shows. The first ones, as many as the
   * client keeps of a conversation, are kept as those of `Client.older` are, for a time without
   * a connection. False: there are none. Errors are those of `Client.history`; what the server
   * cannot read is passed over, and stands in `Conversation.damaged`.
   */
  async older(limit = pageEntries, options: CallOptions = {}): Promise<boolean> {
    const ends = this.#look()
    if (!ends || ends.isOldest) return false
    if (ends.isEmpty && ends.fits) {
      await this.#client.older(this.#conv, limit, options)
      return true
    }
    const before = ends.from + 1
    await this.#page({ before, limit }, options, (page) => this.#turns.apply((core) => takeBefore(core, this.#conv, this.#window, before, page)))
    return true
  }

  /** The same after those that it shows. False: it reaches to the newest one. */
  async newer(limit = pageEntries, options: CallOptions = {}): Promise<boolean> {
    const ends = this.#look()
    if (!ends || ends.isNewest) return false
    const after = ends.to
    await this.#page({ after, limit }, options, (page) => this.#turns.apply((core) => takeAfter(core, this.#conv, this.#window, after, page)))
    return true
  }

  /**
   * Shows the entry seq and about limit entries around it; nothing changes if it shows that one
   * already. False: there is no such entry that this user may read, or another jump came later.
   */
  async around(seq: number, limit = pageEntries, options: CallOptions = {}): Promise<boolean> {
    const has = (): boolean => this.#turns.read((core) => inWindow(core, this.#conv, this.#window, seq))
    return has() || await this.#jump({ around: seq, limit }, options) !== undefined && has()
  }

  /**
   * Shows the first entry of a time or later, in ms since 1970, or the last one of all; it
   * returns its seq. undefined: there is none that this user may read, or another jump came later.
   */
  async at(timeMs: number, limit = pageEntries, options: CallOptions = {}): Promise<number | undefined> {
    const page = await this.#jump({ atMs: Math.max(1, Math.floor(timeMs)), limit }, options)
    return (page?.messages.find((m) => m.timeMs >= timeMs) ?? page?.messages.at(-1))?.seq
  }

  /** Shows the newest entries again. */
  toNewest(): void {
    this.#jumps++
    this.#fresh = false
    this.#turns.apply((core) => emptyWindow(core, this.#conv, this.#window))
  }

  async #jump(q: Omit<GetHistory, 'conv'>, options: CallOptions): Promise<HistoryPage | undefined> {
    const jump = ++this.#jumps
    let taken: HistoryPage | undefined
    await this.#page(q, options, (page) => {
      if (!('messages' in page)) throw new Error('the server answered a jump with a range')
      if (jump !== this.#jumps) return
      taken = page
      this.#turns.apply((core) => takeAround(core, this.#conv, this.#window, page))
    })
    return taken
  }

  /** Asks for a page, and drops one of a former history. */
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

  /** The window works on the core of the client, in its turns. So it costs nothing where nobody reads far back. */
  get #turns(): Client['turns'] {
    return this.#client['turns']
  }
}
