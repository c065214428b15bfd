/**
 * Names what changed. It holds no contents: read those from the snapshots, which are the
 * newest. Two changes merge into one, so what waits for a slow reader is bounded by the
 * number of conversations. Spec: S-18.1.
 */
export interface Change {
  /** Ids of those whose messages, cursors, titles or typists have changed. */
  readonly conversations: ReadonlySet<string>
  /** Conversations came or went. */
  readonly list: boolean
  readonly status: boolean
  /** Settings or devices of the user: an entry of the inbox. */
  readonly account: boolean
  readonly unread: boolean
  readonly signals: boolean
  readonly presence: boolean
  /** Messages to users with whom there is no conversation yet have changed: see pendingTo. */
  readonly pending: boolean
}

/** A change that is being gathered. */
export type Gathered = { -readonly [K in keyof Change]: K extends 'conversations' ? Set<string> : boolean }

export function noChange(): Gathered {
  return { conversations: new Set(), list: false, status: false, account: false, unread: false, signals: false, presence: false, pending: false }
}

/** Whether nothing has changed. */
export function isEmpty({ conversations, ...flags }: Change): boolean {
  return conversations.size === 0 && !Object.values(flags).includes(true)
}

/** Adds the changes of other to ch. */
export function merge(ch: Gathered, { conversations, ...flags }: Change): void {
  for (const conv of conversations) ch.conversations.add(conv)
  for (const [name, on] of Object.entries(flags)) if (on) ch[name as keyof typeof flags] = true
}

/** The old list, if the new one has the same elements. */
export function sameList<T>(old: readonly T[], now: readonly T[]): readonly T[] {
  return old.length === now.length && old.every((one, i) => one === now[i]) ? old : now
}

/** The old object, if the new one has the same fields. */
export function sameFields<T extends object>(old: T | undefined, now: T): T {
  if (!old) return now
  const keys = Object.keys(now) as (keyof T)[]
  return keys.length === Object.keys(old).length && keys.every((key) => old[key] === now[key]) ? old : now
}
