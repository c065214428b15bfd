import type { Failure, Outgoing, StoredRow } from '../core/index.js'
import type { ClientFrameJson, ServerFrameJson } from '../wire/frames_gen.js'

/** Messages of the other tabs to the one that leads. A tab and a number name a connection. */
export type ToLeader =
  /** Asks whether the leading tab is alive. `visible`: the person sees the sending tab. */
  | { readonly kind: 'probe'; readonly tab: string; readonly visible: boolean }
  | { readonly kind: 'open'; readonly tab: string; readonly conn: number }
  | { readonly kind: 'request'; readonly tab: string; readonly conn: number; readonly frame: ClientFrameJson }
  | { readonly kind: 'close'; readonly tab: string; readonly conn: number }

/** Messages of the leading tab to one other tab. */
export type ToTab =
  | { readonly kind: 'opened'; readonly tab: string; readonly conn: number }
  | { readonly kind: 'answer'; readonly tab: string; readonly conn: number; readonly frame: ServerFrameJson }
  | { readonly kind: 'closed'; readonly tab: string; readonly conn: number; readonly why: Failure }
  /** Asks that tab to take the lead. */
  | { readonly kind: 'yield'; readonly tab: string }

/** Messages of the leading tab to all others. */
export type ToAll =
  /** The tab leads, in this term. */
  | { readonly kind: 'leads'; readonly term: number }
  /** Its connection is live: the other tabs can open theirs. */
  | { readonly kind: 'live' }
  | { readonly kind: 'pushed'; readonly frame: ServerFrameJson; readonly except?: string }
  | { readonly kind: 'down'; readonly why: Failure }
  /** Messages of the outbox that were settled. */
  | { readonly kind: 'settled'; readonly messages: readonly Outgoing[] }

/** Messages of any tab to all others. */
export type FromAny =
  /** The tab has removed the data of the account. */
  | { readonly kind: 'wiped' }
  /**
   * Rows that the tab has changed: messages that it has stored or a person has discarded, and conversations whose
   * cursors the leading tab has to store.
   */
  | { readonly kind: 'outbox'; readonly rows: readonly StoredRow[] }

export type TabMessage = ToLeader | ToTab | ToAll | FromAny
