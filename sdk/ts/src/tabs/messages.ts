import type { Failure, Outgoing, StoredRow } from '../core/index.js'
import type { ClientFrameJson, ServerFrameJson } from '../wire/frames_gen.js'

/** Messages of the other tabs to the one that leads. A connection is named by its tab and a number. */
export type ToLeader =
  /** Is anybody there? `visible`: the person sees this tab. */
  | { readonly kind: 'probe'; readonly tab: string; readonly visible: boolean }
  | { readonly kind: 'open'; readonly tab: string; readonly conn: number }
  | { readonly kind: 'request'; readonly tab: string; readonly conn: number; readonly frame: ClientFrameJson }
  | { readonly kind: 'close'; readonly tab: string; readonly conn: number }

/** Messages of the tab that leads to one of the others. */
export type ToTab =
  | { readonly kind: 'opened'; readonly tab: string; readonly conn: number }
  | { readonly kind: 'answer'; readonly tab: string; readonly conn: number; readonly frame: ServerFrameJson }
  | { readonly kind: 'closed'; readonly tab: string; readonly conn: number; readonly why: Failure }
  /** That tab is to lead now. */
  | { readonly kind: 'yield'; readonly tab: string }

/** Messages of the tab that leads to all others. */
export type ToAll =
  /** It leads, in this term. */
  | { readonly kind: 'leads'; readonly term: number }
  /** Its connection is live: now is the time to open one. */
  | { readonly kind: 'live' }
  | { readonly kind: 'pushed'; readonly frame: ServerFrameJson; readonly except?: string }
  | { readonly kind: 'down'; readonly why: Failure }
  /** Messages that it has sent, or that were refused. */
  | { readonly kind: 'settled'; readonly messages: readonly Outgoing[] }

/** Messages of any tab to all others. */
export type FromAny =
  /** The data of the account was removed. */
  | { readonly kind: 'wiped' }
  /**
   * It has stored messages to be sent, or removed those that a person has discarded. Rows of
   * conversations have cursors that the tab that leads is to store.
   */
  | { readonly kind: 'outbox'; readonly rows: readonly StoredRow[] }

export type TabMessage = ToLeader | ToTab | ToAll | FromAny
