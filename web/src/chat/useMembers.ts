import type { Client, Conversation, MemberRef } from '@petrel-im/sdk'
import { useClient, useMessages, useStatus } from '@petrel-im/sdk/react'
import { useEffect, useState } from 'react'
import { alphanumericAnd, Reading } from './textReader.js'

const none: readonly MemberRef[] = []

/**
 * Returns the members of a group; none until they are read, and after the person has left. They are read when a view
 * of the group opens, when an entry changes the membership, and when a connection is made.
 */
export function useMembers(v: Conversation | undefined): readonly MemberRef[] {
  const client = useClient()
  const conv = v && !v.left ? v.id : ''
  const held = useMessages(conv)
  const known = held.length > 0 // before that the last change is not known
  const changed = held.findLast((m) => m.members)?.seq ?? 0
  const live = useStatus().state === 'live'
  const [all, setAll] = useState<{ readonly conv: string; readonly members: readonly MemberRef[] }>({ conv: '', members: none })
  useEffect(() => {
    if (!known || !live) return undefined
    let over = false
    readMembers(client, conv, changed).then((members) => {
      if (!over) setAll({ conv, members })
    }, () => {}) // the next change or connection asks again
    return () => {
      over = true
    }
  }, [client, conv, changed, known, live])
  return all.conv === conv ? all.members : none
}

const underWay = new WeakMap<Client, Map<string, Promise<readonly MemberRef[]>>>()

/**
 * Reads the members after an entry that changed them. The title, the field and the info panel of a group need them
 * at the same time, and share one request.
 */
function readMembers(client: Client, conv: string, changed: number): Promise<readonly MemberRef[]> {
  const reads = underWay.get(client) ?? new Map<string, Promise<readonly MemberRef[]>>()
  underWay.set(client, reads)
  const key = `${conv} ${changed}`
  const read = reads.get(key) ?? client.members(conv).finally(() => reads.delete(key))
  reads.set(key, read)
  return read
}

/** Returns the members that a text names with @, at most 50, and whether it names all. */
export function mentionedIn(text: string, members: readonly MemberRef[], me: string): { readonly mentions: readonly string[]; readonly all: boolean } {
  const named = namesIn(new Reading(text))
  return { mentions: members.map((m) => m.user).filter((u) => u !== me && named.has(u)).slice(0, 50), all: named.has('all') }
}

const beforeName = alphanumericAnd('_@.')
const inName = alphanumericAnd('._+@-')
const endsSentence = (c: number): boolean => c === 46 || c === 45 // . and -

/** Returns the words after @, each with and without the punctuation at its end. */
export function namesIn(r: Reading): ReadonlySet<string> {
  const names = new Set<string>()
  for (let i = r.find('@', 0); i >= 0;) {
    const begin = i + 1
    const end = i > 0 && beforeName(r.at(i - 1)) ? begin : r.skip(begin, inName)
    let last = end
    while (last > begin && endsSentence(r.at(last - 1))) last--
    if (end > begin) names.add(r.text.slice(begin, end)).add(r.text.slice(begin, last))
    i = r.find('@', end)
  }
  return names
}
