import type { Conversation } from '@petrel-im/sdk'
import { useMemo } from 'react'
import type { Away } from './inTimeline.js'

/** What the person has put out of their sight in a conversation; the same object while it is the same. */
export function useAway(v: Conversation): Away {
  const { clearedTo } = v.personal
  return useMemo(() => ({ clearedTo, hidden: nothing }), [clearedTo])
}

const nothing: ReadonlySet<number> = new Set()
