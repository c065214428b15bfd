import type { Message } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { Scroller } from './Scroller.js'
import { down, indexOf, mostRows, slice, type Span, spanAt, up } from './span.js'
import { enterByNewest } from './roving.js'
import { isShown, keyOf } from './rows.js'

const olderPage = 100 // entries that are asked for when the person comes near the oldest one
const jumpPage = 200 // the same on the way to a message that is far away
const littlePx = 100 // if no more than this is below the view, all of it is shown
const dividerBelowPx = 40 // the day stands above it

interface Place {
  readonly key: string
  readonly below: number | 'middle'
}

/** What the timeline does with its window: which entries are drawn, and where the view stands. */
export function useSpan(conv: string, messages: readonly Message[], dividerKey: string | undefined, unreadAfter: number | undefined) {
  const client = useClient()
  const [span, setSpan] = useState<Span>(() => spanAt(messages, unreadAfter === undefined ? Infinity : unreadAfter + 1))
  const [away, setAway] = useState(false) // the newest message is not in view
  const view = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const scroller = useRef<Scroller | undefined>(undefined)
  const place = useRef<Place | undefined>(dividerKey === undefined ? undefined : { key: dividerKey, below: dividerBelowPx })
  const placed = useRef(false)
  const loading = useRef(false)
  const now = useRef({ messages, span })
  now.current = { messages, span }
  const shown = useMemo(() => slice(messages, span), [messages, span])

  /** Draws more where the view comes near an end of what is drawn. */
  const extend = useCallback(() => {
    const s = scroller.current
    const { messages: all, span: is } = now.current
    if (!s || all.length === 0) return
    const margin = Math.max(600, s.height * 1.5)
    if (s.above < margin) {
      const first = all[0]?.seq ?? 0
      if (is.from > first) setSpan(up(all, is))
      else if (!loading.current && first > 1) {
        loading.current = true
        client.older(conv, olderPage).catch(() => {}).finally(() => {
          loading.current = false
        })
      }
    } else if (is.to !== Infinity && s.below < margin) setSpan(down(all, is))
    else if (is.to === Infinity && s.isAtEnd && slice(all, is).length > mostRows + 40) setSpan(spanAt(all))
  }, [client, conv])

  const look = useCallback(() => {
    const s = scroller.current
    if (!s) return
    setAway(!s.isNearEnd || now.current.span.to !== Infinity)
    extend()
  }, [extend])

  useLayoutEffect(() => {
    if (!view.current || !content.current) return undefined
    const s = new Scroller(view.current, content.current)
    scroller.current = s
    const resized = new ResizeObserver(() => {
      s.restore(now.current.span.to === Infinity)
      look()
    })
    resized.observe(view.current)
    resized.observe(content.current)
    return () => resized.disconnect()
  }, [look])

  // After each drawing, before the person sees it.
  useLayoutEffect(() => {
    const s = scroller.current
    if (!s) return
    if (place.current && s.toRow(place.current.key, place.current.below)) {
      place.current = undefined
      placed.current = true
      if (span.to === Infinity && s.below <= littlePx) s.toEnd()
    } else if (!placed.current && shown.length > 0) {
      placed.current = true
      s.toEnd()
    } else s.restore(span.to === Infinity)
    if (content.current) enterByNewest(content.current)
  })
  useEffect(look, [shown, look])

  const toEnd = useCallback(() => {
    setSpan(spanAt(now.current.messages))
    requestAnimationFrame(() => scroller.current?.toEnd())
  }, [])

  /** Brings an entry into view, and reads what is between first. False: it is not there. */
  const jumpTo = useCallback(async (seq: number): Promise<boolean> => {
    for (;;) {
      const all = client.messages(conv)
      const target = all[indexOf(all, seq)]
      if (target?.seq === seq && isShown(target)) {
        const { span: is } = now.current
        if (seq >= is.from && seq <= is.to) {
          scroller.current?.toRow(keyOf(target), 'middle')
          look()
        } else {
          place.current = { key: keyOf(target), below: 'middle' }
          setSpan(spanAt(all, seq))
        }
        return true
      }
      if ((all[0]?.seq ?? 0) <= seq || !await client.older(conv, jumpPage)) return false
    }
  }, [client, conv, look])

  const onScroll = useCallback(() => {
    scroller.current?.remember()
    look()
  }, [look])

  return { span, shown, view, content, scroller, away, toEnd, jumpTo, onScroll }
}
