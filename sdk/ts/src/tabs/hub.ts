import type { Failure } from '../core/index.js'
import { failure } from '../core/index.js'
import type { Connection, ConnectionEvents, Transport } from '../transport.js'
import type { ClientFrameJson, ServerFrameJson, WelcomeJson } from '../wire/frames_gen.js'
import type { ToAll, ToLeader, ToTab } from './messages.js'

/** The first id for requests of other tabs; the leading tab uses small ids. */
const firstForeignId = 2 ** 40
const maxWatched = 200 // P-13.5
/** Why a connection ends when another tab takes over. */
export const changed = 'another tab leads'

/** A tab that uses the connection of this one. */
interface Member {
  readonly tab: string // '' for the tab that leads
  readonly conn: number
  focus: readonly string[] | undefined // undefined: all
  watch: NonNullable<ClientFrameJson['watch']>
}

/** A request that has no answer yet, or waits to be sent. */
interface Request {
  readonly frame: ClientFrameJson
  readonly from: Member | ((answer: ServerFrameJson) => void) // a tab, or the hub itself
}

/** The last cursors of one conversation that were sent to the server. */
interface Move {
  readonly delivered: number
  readonly read: number
  readonly waiting: ((answer: ServerFrameJson) => void)[] // replies for tabs that asked for the same move
  answer?: ServerFrameJson
}

/**
 * Shares one connection, that of the leading tab, among all tabs. Each tab has a core of its own, which takes the
 * hub for a connection to the server. The server does not push the actions of a session to the same session, so the
 * hub passes them on to the other tabs.
 */
export class Hub {
  readonly #direct: Transport
  readonly #post: (m: ToTab | ToAll) => void
  readonly #members = new Map<string, Member>() // by tab
  readonly #own: Member = { tab: '', conn: 0, focus: undefined, watch: {} }
  readonly #open = new Set<() => void>() // close the connections that this tab has opened
  #live: { readonly connection: Connection; readonly on: ConnectionEvents; readonly welcome: WelcomeJson } | undefined
  #nextId = firstForeignId
  readonly #asked = new Map<number, Request>() // by the id that the server knows
  readonly #moves = new Map<string, Move>() // by conversation
  #waiting: Request[] = [] // requests that wait until fewer are open; bounded by what each tab may have unanswered

  constructor(direct: Transport, post: (m: ToTab | ToAll) => void) {
    this.#direct = direct
    this.#post = post
  }

  // --- the tab that leads ---

  /** Makes a connection to the server for the core of this tab. The first one that gets a welcome serves all tabs. */
  connect(address: string, on: ConnectionEvents): Connection {
    const end = (why: Failure): void => {
      this.#open.delete(kill)
      if (this.#live?.connection === connection) this.#down(why)
    }
    const connection = this.#direct.connect(address, {
      opened: () => on.opened(),
      frame: (json) => {
        const frame = json as ServerFrameJson
        if (frame.welcome && this.#open.has(kill) && !this.#live) {
          this.#live = { connection, on, welcome: frame.welcome }
          this.#post({ kind: 'live' })
        }
        if (this.#live?.connection === connection) this.#fromServer(frame)
        else on.frame(json)
      },
      closed: (why) => {
        end(why)
        on.closed(why)
      },
    })
    const kill = (): void => {
      if (!this.#open.has(kill)) return
      const why = failure('link', changed)
      end(why)
      connection.close()
      on.closed(why)
    }
    this.#open.add(kill)
    return {
      send: (data) => {
        if (this.#live?.connection === connection) this.#submit(this.#own, JSON.parse(data as string) as ClientFrameJson)
        else connection.send(data)
      },
      close: () => {
        if (!this.#open.has(kill)) return
        end(failure('link', 'the connection has ended'))
        connection.close()
      },
    }
  }

  /** Ends all connections when this tab stops leading. */
  end(): void {
    for (const kill of [...this.#open]) kill()
  }

  #down(why: Failure): void {
    this.#live = undefined
    this.#members.clear()
    this.#asked.clear()
    this.#moves.clear()
    this.#waiting = []
    this.#own.focus = undefined
    this.#own.watch = {}
    this.#post({ kind: 'down', why })
  }

  // --- the other tabs ---

  take(m: Exclude<ToLeader, { kind: 'probe' }>): void {
    const { tab, conn } = m
    const live = this.#live
    const closed = (): void => this.#post({ kind: 'closed', tab, conn, why: failure('link', 'the connection has ended') })
    if (m.kind === 'open') {
      if (live) this.#post({ kind: 'opened', tab, conn })
      else closed()
      return
    }
    const member = this.#members.get(tab)
    if (m.kind === 'close') {
      if (member?.conn === conn) this.gone(tab)
      return
    }
    const { frame } = m
    const answer = (reply: ServerFrameJson): void => this.#post({ kind: 'answer', tab, conn, frame: { ...(frame.id ? { id: frame.id } : {}), ...reply } })
    if (!live) return
    if (frame.hello) {
      this.#members.set(tab, { tab, conn, focus: undefined, watch: {} })
      answer({ welcome: live.welcome })
      this.#refocus()
    } else if (member?.conn !== conn) closed()
    else if (frame.ping) answer({ pong: {} }) // the pong shows that this tab lives; its core checks the server
    else if (!frame.pong) this.#submit(member, frame)
  }

  /** Removes a tab that does not use the connection any more. */
  gone(tab: string): void {
    if (!this.#members.delete(tab)) return
    this.#waiting = this.#waiting.filter(({ from, frame }) => typeof from === 'function' || from.tab !== tab || frame.cursor) // a move of cursors stays, because other tabs may wait for its answer
    this.#refocus()
    this.#rewatch()
  }

  // --- requests ---

  /** Sends a frame of a tab to the server. */
  #submit(member: Member, frame: ClientFrameJson): void {
    if (frame.ping || frame.pong || frame.hello) {
      this.#live?.connection.send(JSON.stringify(frame))
      return
    }
    let f = frame
    if (frame.focus) {
      member.focus = frame.focus.all ? undefined : frame.focus.convs ?? []
      f = { ...frame, focus: this.#focus() }
    } else if (frame.watch) {
      member.watch = frame.watch
      f = { ...frame, watch: this.#watch() }
    } else if (frame.cursor && this.#answeredByMove(member, frame)) return
    this.#ask({ from: member, frame: f })
  }

  /**
   * Answers a move of cursors that another tab has made or is making, and returns true: the tab gets the answer to
   * that move. Otherwise it records the move, which the caller has to send. All tabs hold the same entries, and the
   * server takes one move a second.
   */
  #answeredByMove(member: Member, { id, cursor }: ClientFrameJson): boolean {
    const conv = cursor?.conv ?? ''
    const delivered = Number(cursor?.delivered ?? 0)
    const read = Number(cursor?.read ?? 0)
    const last = this.#moves.get(conv)
    if (!last || delivered > last.delivered || read > last.read || delivered + read === 0) {
      const { delivered: d = 0, read: r = 0, waiting = [] } = last ?? {}
      this.#moves.set(conv, { delivered: Math.max(d, delivered), read: Math.max(r, read), waiting })
      return false
    }
    const reply = (answer: ServerFrameJson): void => this.#answer(member, id, answer)
    if (last.answer) reply(last.answer)
    else last.waiting.push(reply)
    return true
  }

  #movedAll(conv: string, answer: ServerFrameJson): void {
    const last = this.#moves.get(conv)
    if (!last) return
    if (answer.cursor) last.answer = answer
    else this.#moves.delete(conv)
    for (const reply of last.waiting.splice(0)) reply(answer)
  }

  /** Passes an answer to the tab that asked, if the tab still has the same connection. */
  #answer(member: Member, id: string | undefined, answer: ServerFrameJson): void {
    const frame = { ...answer, ...(id === undefined ? {} : { id }) }
    if (member === this.#own) this.#live?.on.frame(frame)
    else if (this.#members.get(member.tab) === member) this.#post({ kind: 'answer', tab: member.tab, conn: member.conn, frame })
  }

  /**
   * Sends a message at once: only the leading tab sends messages, and its core keeps within the window. Other
   * requests wait until fewer are open.
   */
  #ask(r: Request): void {
    if (r.frame.send) this.#forward(r)
    else this.#waiting.push(r)
    this.#drain()
  }

  /** Sends waiting requests, as many as the server allows to be open. Spec: P-2.2. */
  #drain(): void {
    let open = 0
    for (const r of this.#asked.values()) if (!r.frame.send) open++
    const room = (this.#live?.welcome.limits?.openRequests || 16) - open
    for (const r of this.#waiting.splice(0, Math.max(0, room))) this.#forward(r)
  }

  #forward(r: Request): void {
    const id = r.from === this.#own ? Number(r.frame.id ?? 0) : ++this.#nextId
    this.#asked.set(id, r)
    this.#live?.connection.send(JSON.stringify({ ...r.frame, id: String(id) }))
  }

  #fromServer(frame: ServerFrameJson): void {
    const id = Number(frame.id ?? 0)
    const r = frame.ping ? undefined : this.#asked.get(id)
    if (!r) {
      for (const hint of frame.events?.hints ?? []) if (hint.mentionSeq) this.#moves.delete(hint.conv ?? '') // the next move has to ask the server, because its answer lists the mentions
      this.#live?.on.frame(frame)
      if (!frame.welcome && !frame.pong) this.#post({ kind: 'pushed', frame })
      return
    }
    this.#asked.delete(id)
    if (typeof r.from === 'function') r.from(frame)
    else {
      this.#answer(r.from, r.frame.id, frame)
      if (r.frame.cursor) this.#movedAll(r.frame.cursor.conv ?? '', frame)
      if (this.#members.size > 0) this.#echo(r.from, r.frame, frame)
    }
    this.#drain()
  }

  /**
   * Passes the effect of a tab's request on to the other tabs, because the server does not push the actions of a
   * session to the same session. A sent message is read back: only the server has it complete.
   */
  #echo(by: Member, request: ClientFrameJson, { ack, cursor }: ServerFrameJson): void {
    if (ack?.seq) {
      const seq = Number(ack.seq)
      const history = { conv: ack.conv || (request.send?.conv ?? ''), after: String(seq - 1), before: String(seq + 1), limit: 1 }
      this.#ask({ from: ({ history: page }) => page?.messages && this.#tell(by, { events: { messages: page.messages } }), frame: { history } })
    }
    if (cursor && request.cursor) {
      const { conv = '' } = request.cursor
      const { delivered = '0', read = '0' } = cursor
      this.#tell(by, { events: { receipts: [{ conv, user: this.#live?.welcome.user ?? '', delivered, read }] } })
    }
  }

  /** Passes a frame to all tabs but one, as if the server had pushed it. */
  #tell(but: Member, frame: ServerFrameJson): void {
    this.#post({ kind: 'pushed', frame, except: but.tab })
    if (but !== this.#own) this.#live?.on.frame(frame)
  }

  // --- focus and watch: those of all tabs together ---

  get #all(): readonly Member[] {
    return [this.#own, ...this.#members.values()]
  }

  #focus(): NonNullable<ClientFrameJson['focus']> {
    const convs = new Set<string>()
    for (const { focus } of this.#all) {
      if (!focus) return { all: true }
      for (const conv of focus) convs.add(conv)
    }
    return { convs: [...convs] }
  }

  #watch(): NonNullable<ClientFrameJson['watch']> {
    const all = this.#all.map((m) => m.watch)
    return { users: [...new Set(all.flatMap((w) => w.users ?? []))].slice(0, maxWatched), conv: all.map((w) => w.conv).filter(Boolean).at(-1) ?? '' }
  }

  /** Sends the union of the focus of all tabs, after a tab came or went. */
  #refocus(): void {
    if (this.#offers('focus') && this.#all.some((m) => m.focus)) this.#ask({ from: () => {}, frame: { focus: this.#focus() } })
  }

  #rewatch(): void {
    if (this.#offers('presence')) this.#ask({ from: () => {}, frame: { watch: this.#watch() } })
  }

  #offers(capability: string): boolean {
    return this.#live?.welcome.capabilities?.includes(capability) ?? false
  }
}
