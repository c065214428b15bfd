import type { Message } from '@petrel-im/sdk'
import { type HistoryView, HistoryWindow } from '@petrel-im/sdk/history'
import { useClient } from '@petrel-im/sdk/react'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react'
import { Scroller } from './Scroller.js'
import { down, indexOf, mostRows, openingRows, slice, type Span, spanAt, stepRows, up } from './drawnSpan.js'
import { type Away, inTimeline } from './inTimeline.js'
import { enterByNewest } from './rovingFocus.js'
import { isShown, keyOf } from './timelineRows.js'

const nearRows = 150 // if fewer rows are held beyond the drawn ones, more are loaded
const littlePx = 100 // if no more than this is below the view, the view goes to the end, unless the line of unread messages would leave the view
const dividerBelowPx = 88 // room for the pinned message and the day above it
const openingMs = 1500 // how long a chat waits for the page where it opens
const jumpMs = 15_000 // how long a jump waits for the server
const jumpWithoutMs = 2000 // the same without a connection, so that the person is told soon

/**
 * The position that the view takes when a span is drawn: a row, and the distance of the row from the top of the view.
 */
interface Place {
  readonly span: Span
  readonly key: string // '': the end
  readonly below: number | 'middle'
}

/** The place where a chat opens: the first unread row, or else the kept position; undefined: the end. */
export type Opening = { readonly seq: number; readonly belowPx: number } | { readonly unreadAfter: number } | undefined

/** Connects a timeline with its HistoryWindow: which entries are drawn, and where the view stands. */
export function useSpan(conv: string, me: string, opening: Opening, hides: Away) {
  const client = useClient()
  const [window] = useState(() => new HistoryWindow(client, conv))
  const whole = useSyncExternalStore(window.subscribe, window.view)
  const held = inTimeline(whole, hides)
  const isAwayNow = useRef(hides)
  isAwayNow.current = hides
  const viewNow = useCallback(() => inTimeline(window.view(), isAwayNow.current), [window])
  const openAt = opening === undefined ? Infinity : 'seq' in opening ? opening.seq : opening.unreadAfter + 1
  const [waits, setWaits] = useState(() => openAt !== Infinity && !isHeld(held, openAt)) // the chat waits for the page where it opens
  const [span, setSpan] = useState<Span>(() => spanAt(held, openAt, openAt === Infinity ? openingRows(innerHeight) : undefined))
  const oldest = held.messages[0]?.seq ?? 0
  const [wasOldest, setWasOldest] = useState(oldest)
  if (oldest !== wasOldest) {
    setWasOldest(oldest)
    // Older entries can take the name above the first drawn row away. The view is at the top then, and keeps its
    // place only if rows above it are drawn at once.
    if (oldest < wasOldest && span.from === wasOldest) setSpan(up(held, span))
  }
  const [away, setAway] = useState(false) // the newest message is out of view
  const [hidden, setHidden] = useState(false) // the view has no size
  const view = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const scroller = useRef<Scroller | undefined>(undefined)
  const place = useRef<Place | undefined>(undefined)
  const opened = useRef(false)
  const reached = useRef(!(opening && 'seq' in opening)) // the view reached the kept position, or the person went elsewhere
  const loading = useRef(false)
  const jumps = useRef(0) // how many jumps began; only the last one moves the view
  const settle = useRef(() => {}) // restores the position of the view after the last drawing
  const now = useRef({ held, span })
  now.current = { held, span }
  const shown = useMemo(() => waits ? none : slice(held.messages, span), [waits, held, span])

  /** Loads more entries, one page at a time. */
  const load = useCallback((more: () => Promise<boolean>) => {
    if (loading.current) return
    loading.current = true
    more().catch(() => {}).finally(() => {
      loading.current = false
    })
  }, [])

  /**
   * Draws more rows when the view comes near an end of the drawn ones, and loads more when few held ones are left.
   */
  const extend = useCallback(() => {
    const s = scroller.current
    const { held: h, span: is } = now.current
    const { messages: all } = h
    if (!s || all.length === 0 || place.current) return // during a jump only its own span is drawn
    const before = indexOf(all, is.from)
    const margin = Math.max(600, s.height * 1.5)
    if (s.above < margin && before > 0) setSpan(up(h, is, rowsFor(s.above, s.height)))
    else if (is.to !== Infinity && s.below < margin) setSpan(down(h, is, rowsFor(s.below, s.height)))
    else if (is.to === Infinity && s.isAtEnd && all.length - before > mostRows + sideSlack) setSpan(spanAt(h))
    if (before < nearRows && !h.isOldest && s.above < margin) load(() => window.older())
    else if (!h.isNewest && all.length - indexOf(all, is.to) < nearRows) load(() => window.newer())
  }, [load, window])

  const look = useCallback(() => {
    const s = scroller.current
    if (!s) return
    setHidden(s.isHidden)
    if (s.isHidden) return
    setAway(!s.isNearEnd || now.current.span.to !== Infinity)
    extend()
  }, [extend])

  useLayoutEffect(() => {
    if (!view.current || !content.current) return undefined
    const s = new Scroller(view.current, content.current)
    scroller.current = s
    const resized = new ResizeObserver(() => {
      settle.current()
      look()
    })
    resized.observe(view.current)
    resized.observe(content.current)
    return () => resized.disconnect()
  }, [look])

  // Runs after each drawing, before the browser shows it.
  useLayoutEffect(() => {
    const s = scroller.current
    if (!s) return
    s.drawn()
    settle.current = () => {
      s.restore(span.to === Infinity)
      if (s.isHidden) return // an opening or a jump waits until the chat is visible
      const opens = !opened.current && shown.length > 0
      if (opens) {
        opened.current = true
        place.current ??= openingPlace(shown, me, span, opening, held) // a person who jumped while the chat waited stays there
        if (place.current.key !== '') reached.current = true
      }
      const to = place.current
      if (to?.span !== span) return
      place.current = undefined
      const there = to.key !== '' && s.toRow(to.key, to.below)
      if (there ? span.to === Infinity && s.below <= (to.key === unreadKey ? dividerBelowPx : littlePx) : opens || to.key === '') s.toEnd()
      if (opens && s.above <= 0) extend() // low rows may not fill the view: draw more before it is shown
    }
    settle.current()
    if (content.current) enterByNewest(content.current)
  })
  useEffect(look, [shown, look])

  const toEnd = useCallback(() => {
    jumps.current++
    window.toNewest()
    const newest = spanAt(viewNow())
    place.current = { span: newest, key: '', below: 0 }
    reached.current = true
    setSpan(newest)
    setWaits(false)
  }, [viewNow, window])

  /** Moves the view to a held row. */
  const standAt = useCallback((target: Message, below: number | 'middle') => {
    reached.current = true
    setWaits(false)
    const { span: is } = now.current
    if (target.seq >= is.from && target.seq <= is.to && scroller.current?.toRow(keyOf(target, me), below)) look()
    else {
      const around = spanAt(viewNow(), target.seq)
      place.current = { span: around, key: keyOf(target, me), below }
      setSpan(around)
    }
  }, [look, me, viewNow])

  const within = useCallback(() => ({ timeoutMs: client.status().state === 'live' ? jumpMs : jumpWithoutMs }), [client])

  /**
   * Brings an entry into view without the entries between. It returns false if there is no such row, and undefined
   * if the person went elsewhere meanwhile.
   */
  const jumpTo = useCallback(async (seq: number): Promise<boolean | undefined> => {
    const jump = ++jumps.current
    const has = await window.around(seq, undefined, within())
    if (jump !== jumps.current) return undefined
    if (!has) return false
    const { messages } = viewNow()
    const target = messages[indexOf(messages, seq)]
    if (target?.seq !== seq || !isShown(target)) return false
    standAt(target, 'middle')
    return true
  }, [standAt, viewNow, within, window])

  /** Brings the first message of this time or later to the top, or else the last message. */
  const jumpToTime = useCallback(async (ms: number): Promise<void> => {
    jumps.current++
    const { messages, isOldest, isNewest } = viewNow()
    const first = messages[0]
    const last = messages.at(-1)
    const here = first && last && (isOldest || first.timeMs < ms) && (isNewest || last.timeMs >= ms)
    const seq = here ? (messages.find((m) => m.timeMs >= ms) ?? last).seq : await window.at(ms, undefined, within())
    if (seq === undefined) return
    const all = viewNow().messages
    const target = all.find((m) => m.seq >= seq && isShown(m)) ?? all.findLast(isShown)
    if (target) standAt(target, dividerBelowPx)
  }, [standAt, viewNow, within, window])

  // If the chat opens at entries that are not held, it waits a moment for them, so that nothing jumps.
  useEffect(() => {
    if (!waits) return undefined
    let over = false
    const end = (): void => {
      if (over) return
      over = true
      setSpan(spanAt(viewNow(), isHeld(viewNow(), openAt) ? openAt : Infinity))
      setWaits(false)
    }
    const timer = setTimeout(() => {
      window.toNewest() // a later page is not shown
      end()
    }, navigator.onLine ? openingMs : 0)
    window.around(openAt).then(end, end)
    return () => {
      over = true
      clearTimeout(timer)
    }
  }, [openAt, viewNow, waits, window])

  const onScroll = useCallback(() => {
    scroller.current?.remember()
    look()
  }, [look])

  return { whole, held, span, shown, view, content, scroller, reached, away, hidden, toEnd, jumpTo, jumpToTime, onScroll }
}

const unreadKey = 'unread' // the key of the row with the line of unread messages
const none: readonly Message[] = []
const sideSlack = 40 // rows beyond mostRows that may gather at the end

/**
 * Returns how many rows to draw next: few while the drawn rows reach further than the height of the view, many when
 * the person could soon see their end.
 */
function rowsFor(leftPx: number, height: number): number {
  return leftPx > height ? stepRows : 5 * stepRows
}

function isHeld({ messages, isOldest }: HistoryView, seq: number): boolean {
  return isOldest || (messages[0]?.seq ?? Infinity) <= seq
}

/** Returns the row at which a chat opens; the end, if the kept position was not loaded in time. */
function openingPlace(shown: readonly Message[], me: string, span: Span, opening: Opening, held: HistoryView): Place {
  if (opening && 'unreadAfter' in opening) return { span, key: unreadKey, below: dividerBelowPx }
  const first = shown[0]
  const isThere = opening && first && (first.seq <= opening.seq || held.isOldest && first === held.messages[0])
  const row = isThere && shown.find((m) => m.seq >= opening.seq && isShown(m))
  return { span, key: row ? keyOf(row, me) : '', below: opening?.belowPx ?? 0 }
}
