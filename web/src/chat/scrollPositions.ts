import { mayKeep } from '../account/accounts.js'
import { keep, namesOf, recall } from '../browserStorage.js'

/** A reading position in a conversation: an entry, and how far its top is below the top of the view, in px. */
export interface ReadingPlace {
  readonly seq: number
  readonly belowPx: number
}

const most = 50 // the most chats of an account with a kept position; others open at the end

const nameOf = (account: string, conv: string): string => `${account}:place:${conv}`

/** Returns the kept position; undefined: none is kept, so the chat opens at the end. */
export function placeIn(account: string, conv: string): ReadingPlace | undefined {
  const [seq = 0, belowPx = 0] = recall(nameOf(account, conv)).split(' ').map(Number)
  return Number.isSafeInteger(seq) && seq > 0 && Number.isFinite(belowPx) ? { seq, belowPx } : undefined
}

/**
 * Keeps the position of a chat. If `most` chats have one already, another chat loses its position. undefined stands
 * for the end, and removes the kept position.
 */
export function keepPlace(account: string, conv: string, place: ReadingPlace | undefined): void {
  if (!mayKeep(account)) return
  const name = nameOf(account, conv)
  const kept = namesOf(nameOf(account, ''))
  if (place && !kept.includes(name) && kept.length >= most) keep(kept[0] ?? '', '')
  keep(name, place ? `${place.seq} ${Math.round(place.belowPx)}` : '')
}
