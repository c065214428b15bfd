/**
 * Names the parts of the state that changed. It holds no contents: read those from the snapshots, which are
 * always the newest. Two changes merge into one, so a slow reader has at most one name for each conversation
 * waiting. Spec: S-18.1.
 */
export interface Change {
  /** Ids of the conversations whose messages, cursors, titles or typing users have changed. */
  readonly conversations: ReadonlySet<string>
  /** Conversations were added or removed. */
  readonly list: boolean
  readonly status: boolean
  /** Settings or devices of the user changed, or the inbox got another entry. */
  readonly account: boolean
  readonly unread: boolean
  readonly signals: boolean
  readonly presence: boolean
  /** Pending messages to users without a direct conversation have changed: see pendingTo. */
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

/** Returns the old list if the new one has the same elements, else the new one. */
export function sameList<T>(old: readonly T[], now: readonly T[]): readonly T[] {
  return old.length === now.length && old.every((one, i) => one === now[i]) ? old : now
}

/** Returns the old object if the new one has the same fields, else the new one. */
export function sameFields<T extends object>(old: T | undefined, now: T): T {
  if (!old) return now
  const keys = Object.keys(now) as (keyof T)[]
  return keys.length === Object.keys(old).length && keys.every((key) => old[key] === now[key]) ? old : now
}
