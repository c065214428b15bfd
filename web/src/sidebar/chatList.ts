import type { Client, Conversation } from '@petrel-im/sdk'
import { hasWords, isNamed, type Names } from '../account/useName.js'
import type { Route } from '../route.js'

/** Whether the list shows a conversation: a known direct one or group, but no messages of a stranger. */
export function isListed(v: Conversation): boolean {
  return v.known && (v.kind === 'direct' || v.kind === 'group') && v.personal.firstMessages === ''
}

/** Whether the messages of a conversation wait for the person to accept them. */
export function isRequest(v: Conversation): boolean {
  return v.known && v.personal.firstMessages === 'waiting' && !v.personal.blocked
}

/**
 * Returns the time of the last message, by the clock of the server. Without messages it is the time of the last
 * entry, such as the one that created the group.
 */
export function lastMs(client: Client, v: Conversation): number {
  return v.last?.timeMs ?? client.messages(v.id).at(-1)?.timeMs ?? 0
}

/** Sorts conversations: pinned ones first, in the order of the person, then the others, the newest message first. */
export function inOrder(client: Client, all: readonly Conversation[]): readonly Conversation[] {
  const rank = (v: Conversation): number => v.personal.pinned > 0 ? v.personal.pinned : Infinity
  const when = new Map(all.map((v) => [v.id, lastMs(client, v)]))
  return [...all].sort((a, b) => {
    const [ra, rb] = [rank(a), rank(b)]
    return ra !== rb ? ra - rb : (when.get(b.id) ?? 0) - (when.get(a.id) ?? 0)
  })
}

/** Whether the title, or a name of the other user, contains the words. */
export function matches(v: Pick<Conversation, 'peer' | 'title'>, wanted: string, names: Names): boolean {
  return hasWords([v.title], wanted) || v.peer !== '' && isNamed(v.peer, wanted, names)
}

export function chatRoute(account: string, v: Pick<Conversation, 'id' | 'kind' | 'peer'>): Partial<Route> {
  return v.kind === 'direct' ? { account, user: v.peer } : { account, conv: v.id }
}

export function isMuted(v: Conversation, now = Date.now()): boolean {
  return v.personal.mutedUntilMs > now || v.personal.notify === 'nothing'
}

/** Whether a group that the user has left was dissolved: its newest change of members says so. */
export function isDissolved(client: Client, v: Conversation): boolean {
  return v.left && (client.messages(v.id).findLast((m) => m.members)?.members?.dissolved ?? false)
}
