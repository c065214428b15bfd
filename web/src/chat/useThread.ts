import { type Client, type Entry, type HistoryPage, type Message } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { useCallback, useEffect, useMemo, useState, useSyncExternalStore } from 'react'
import { isShown } from './timelineRows.js'

const pageEntries = 200 // entries of each page that is searched
const pagesAtOnce = 10

/** The content of a thread at one moment. */
export interface ThreadView {
  readonly root: Message | undefined // undefined: it is not known yet
  readonly before: readonly Message[] // messages from the root up to the searched position, oldest first
  readonly after: readonly Message[] // messages after that position; none if isWhole
  /** No message between before and after is missing. */
  readonly isWhole: boolean
}

/**
 * The messages of a thread. Held ones are there at once, and new ones are added. A thread has no list of its own in
 * the conversation, so older ones are searched for page by page, from the root up to the held entries.
 */
export class Thread {
  readonly #client: Client
  readonly #conv: string
  readonly #root: number
  readonly #seen = new Map<number, Message>() // by seq, with the root
  readonly #low: number // the first held entry when the thread was opened
  #upTo: number // all entries from the root up to this seq were searched
  #view: ThreadView | undefined
  #loading = false
  readonly #listeners = new Set<() => void>()

  constructor(client: Client, conv: string, root: number) {
    this.#client = client
    this.#conv = conv
    this.#root = root
    this.#low = client.messages(conv)[0]?.seq ?? (client.conversation(conv)?.head ?? 0) + 1
    this.#upTo = root - 1
  }

  readonly subscribe = (f: () => void): (() => void) => {
    this.#listeners.add(f)
    const end = this.#client.subscribe((change) => {
      if (!change.conversations.has(this.#conv)) return
      this.#view = undefined
      f()
    })
    return () => {
      this.#listeners.delete(f)
      end()
    }
  }

  /** Returns the present view: the same object while nothing changes. */
  readonly view = (): ThreadView => {
    this.#view ??= this.#look()
    return this.#view
  }

  #look(): ThreadView {
    const held = this.#client.messages(this.#conv)
    const from = held[0]?.seq ?? Infinity
    for (const m of held) {
      if (this.#has(m)) this.#seen.set(m.seq, m)
      else this.#rewrite(m, from)
    }
    const all = [...this.#seen.values()].filter((m) => m.seq !== this.#root).sort((a, b) => a.seq - b.seq)
    const before = all.filter((m) => m.seq <= this.#upTo)
    const after = all.filter((m) => m.seq > this.#upTo)
    const isWhole = this.#upTo + 1 >= this.#low || this.#seen.has(this.#root) && after.length > 0 && after[0]?.threadN === (before.at(-1)?.threadN ?? 0) + 1
    return { root: this.#seen.get(this.#root), isWhole, before: isWhole ? all : before, after: isWhole ? [] : after }
  }

  #has(m: Message): boolean {
    return m.seq === this.#root || m.rel?.thread === this.#root && isShown(m)
  }

  /** Applies an edit or a recall to a message of the thread that the client does not hold any more. */
  #rewrite({ seq, edit, recall }: Message, from: number): void {
    const target = this.#seen.get(edit?.target ?? recall?.target ?? 0)
    if (!target || target.seq >= from || target.recalledBy > 0 || seq <= target.editedBy) return
    const { text, data, ...rest } = target
    if (recall) this.#seen.set(target.seq, { ...rest, recalledBy: seq, reactions: [] })
    else this.#seen.set(target.seq, { ...target, ...(edit?.text === undefined ? {} : { text: edit.text }), editedBy: seq })
  }

  /** Searches the next pages of the conversation. Errors are those of `Client.history`. */
  async more(): Promise<void> {
    if (this.#loading) return
    this.#loading = true
    try {
      for (let pages = 0; pages < pagesAtOnce && !this.view().isWhole; pages++) {
        this.#take(await this.#client.history({ conv: this.#conv, after: this.#upTo, limit: pageEntries }))
        for (const f of this.#listeners) f()
      }
    } finally {
      this.#loading = false
    }
  }

  #take({ messages, notes, more }: HistoryPage): void {
    for (const entry of messages) {
      const m = messageOf(entry, notes)
      if (this.#has(m) && !this.#seen.has(m.seq)) this.#seen.set(m.seq, m)
    }
    this.#upTo = more ? Math.max(this.#upTo + 1, messages.at(-1)?.seq ?? 0) : Infinity
    this.#view = undefined
  }
}

function messageOf(entry: Entry, notes: HistoryPage['notes']): Message {
  const note = entry.recalledBy === 0 ? notes.find((n) => n.seq === entry.seq) : undefined
  return { ...entry, reactions: note?.reactions ?? [], pinned: note?.pinned ?? false, delivered: 0, read: 0 }
}

/**
 * Returns the view of a thread. `more` searches on; it is set if the last search failed or stopped after 10 pages.
 */
export function useThread(conv: string, root: number): ThreadView & { readonly more: (() => void) | undefined } {
  const client = useClient()
  const [thread] = useState(() => new Thread(client, conv, root))
  const view = useSyncExternalStore(thread.subscribe, thread.view)
  const [reads, setReads] = useState(true)
  const more = useCallback(() => {
    setReads(true)
    thread.more().catch(() => {}).finally(() => setReads(false)) // after an error the person can ask again
  }, [thread])
  useEffect(more, [more])
  const asks = reads || view.isWhole ? undefined : more
  return useMemo(() => ({ ...view, more: asks }), [view, asks])
}
