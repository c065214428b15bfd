/**
 * Names what changed. It holds no contents: read those from the snapshots, which are the
 * newest. Two changes merge into one, so what waits for a slow reader is bounded by the
 * number of conversations. Spec: S-18.1.
 */
export interface Change {
  readonly conversations: ReadonlySet<string> // ids; their messages, cursors, titles, or who is typing
  readonly list: boolean // conversations came or went
  readonly status: boolean
  readonly account: boolean // settings or devices of the user: an entry of the inbox
  readonly unread: boolean
  readonly signals: boolean
  readonly presence: boolean
  readonly pending: boolean // messages to users with whom there is no conversation yet: see pendingTo
}

/** A change that is being gathered. */
export type Gathered = { -readonly [K in keyof Change]: K extends 'conversations' ? Set<string> : boolean }

export function noChange(): Gathered {
  return { conversations: new Set(), list: false, status: false, account: false, unread: false, signals: false, presence: false, pending: false }
}

/** Tells whether nothing changed. */
export function isEmpty({ conversations, ...flags }: Change): boolean {
  return conversations.size === 0 && !Object.values(flags).includes(true)
}

/** Adds what other says to ch. */
export function merge(ch: Gathered, { conversations, ...flags }: Change): void {
  for (const conv of conversations) ch.conversations.add(conv)
  for (const [name, on] of Object.entries(flags)) if (on) ch[name as keyof typeof flags] = true
}
