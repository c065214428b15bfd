import type { Message } from '@petrel-im/sdk'
import { type HistoryView, HistoryWindow } from '@petrel-im/sdk/history'
import { useClient } from '@petrel-im/sdk/react'
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react'
import { Scroller } from './Scroller.js'
import { down, indexOf, mostRows, openingRows, slice, type Span, spanAt, stepRows, up } from './drawnSpan.js'
import { type Away, inTimeline } from './inTimeline.js'
import { enterByNewest } from './rovingFocus.js'
import { isShown, keyOf } from './timelineRows.js'

const nearRows = 150 // if less than this is held beyond what is drawn, more is asked for
const littlePx = 100 // if no more than this is below the view, all of it is shown, unless the line of unread messages would leave the view
const dividerBelowPx = 88 // the pinned message and the day stand above it
const openingMs = 1500 // for which a chat waits for the place where it opens
const jumpMs = 15_000 // for which a jump waits for the server
const jumpWithoutMs = 2000 // the same without a connection: then the person is told soon

/** The position of the view once a span is drawn: a row, and how far it is below the top. */
interface Place {
  readonly span: Span
  readonly key: string // '': at the end
  readonly below: number | 'middle'
}

/** The place where a chat opens: the first row that was not read, or else the kept position. */
export type Opening = { readonly seq: number; readonly belowPx: number } | { readonly unreadAfter: number } | undefined

/** The timeline's use of its window: the drawn entries, and the position of the view. */
export function useSpan(conv: string, me: string, opening: Opening, hides: Away) {
  const client = useClient()
  const [window] = useState(() => new HistoryWindow(client, conv))
  const whole = useSyncExternalStore(window.subscribe, window.view)
  const held = inTimeline(whole, hides)
  const isAwayNow = useRef(hides)
  isAwayNow.current = hides
  const viewNow = useCallback(() => inTimeline(window.view(), isAwayNow.current), [window])
  const openAt = opening === undefined ? Infinity : 'seq' in opening ? opening.seq : opening.unreadAfter + 1
  const [waits, setWaits] = useState(() => openAt !== Infinity && !isHeld(held, openAt)) // for the page where the chat opens
  const [span, setSpan] = useState<Span>(() => spanAt(held, openAt, openAt === Infinity ? openingRows(innerHeight) : undefined))
  const oldest = held.messages[0]?.seq ?? 0
  const [wasOldest, setWasOldest] = useState(oldest)
  if (oldest !== wasOldest) {
    setWasOldest(oldest)
    // The first row that is drawn may lose the name above it by what has come before it. The view
    // stands at the top there, and stays where it is only if there are rows above it at once.
    if (oldest < wasOldest && span.from === wasOldest) setSpan(up(held, span))
  }
  const [away, setAway] = useState(false) // the newest message is not in view
  const [hidden, setHidden] = useState(false) // the view has no size
  const view = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const scroller = useRef<Scroller | undefined>(undefined)
  const place = useRef<Place | undefined>(undefined)
  const opened = useRef(false)
  const reached = useRef(!(opening && 'seq' in opening)) // the view came to the place that was kept, or the person went elsewhere
  const loading = useRef(false)
  const jumps = useRef(0) // so far: the last one decides where the view stands
  const settle = useRef(() => {}) // brings the view, after what was drawn last, to where it is to stand
  const now = useRef({ held, span })
  now.current = { held, span }
  const shown = useMemo(() => waits ? none : slice(held.messages, span), [waits, held, span])

  /** Asks for more where few held entries are left. */
  const load = useCallback((more: () => Promise<boolean>) => {
    if (loading.current) return
    loading.current = true
    more().catch(() => {}).finally(() => {
      loading.current = false
    })
  }, [])

  /** Draws more where the view comes near an end of the drawn entries. */
  const extend = useCallback(() => {
    const s = scroller.current
    const { held: h, span: is } = now.current
    const { messages: all } = h
    if (!s || all.length === 0 || place.current) return // a jump is under way: its span is drawn next, and no other one
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

  // After each drawing, before the person sees it.
  useLayoutEffect(() => {
    const s = scroller.current
    if (!s) return
    s.drawn()
    settle.current = () => {
      s.restore(span.to === Infinity)
      if (s.isHidden) return // the chat opens, or goes to a place, when it can be seen
      const opens = !opened.current && shown.length > 0
      if (opens) {
        opened.current = true
        place.current ??= openingPlace(shown, me, span, opening, held) // a person who went elsewhere while the chat waited is not taken back
        if (place.current.key !== '') reached.current = true
      }
      const to = place.current
      if (to?.span !== span) return
      place.current = undefined
      const there = to.key !== '' && s.toRow(to.key, to.below)
      if (there ? span.to === Infinity && s.below <= (to.key === unreadKey ? dividerBelowPx : littlePx) : opens || to.key === '') s.toEnd()
      if (opens && s.above <= 0) extend() // low rows do not fill the view: nobody sees it like that
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

  /** Has the view stand at a row, which is held. */
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

  /** Brings an entry into view; of what is between nothing is read. False: it is not there. undefined: the person went elsewhere meanwhile. */
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

  /** Brings the first message of a time or later to the top, or the last one of all. */
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

  // The chat opens far back: it waits a moment for what is there, so that nothing jumps.
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
      window.toNewest() // a page that comes later is not shown any more
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

const unreadKey = 'unread' // of the row of the line
const none: readonly Message[] = []
const sideSlack = 40 // rows beyond the bound that may gather at the end

/** By how many rows to go on, with so many px left beyond the view: few, as long as nobody sees that they are missing. */
function rowsFor(leftPx: number, height: number): number {
  return leftPx > height ? stepRows : 5 * stepRows
}

function isHeld({ messages, isOldest }: HistoryView, seq: number): boolean {
  return isOldest || (messages[0]?.seq ?? Infinity) <= seq
}

/** The row at which a chat opens; the end, if the place that was kept could not be read in time. */
function openingPlace(shown: readonly Message[], me: string, span: Span, opening: Opening, held: HistoryView): Place {
  if (opening && 'unreadAfter' in opening) return { span, key: unreadKey, below: dividerBelowPx }
  const first = shown[0]
  const isThere = opening && first && (first.seq <= opening.seq || held.isOldest && first === held.messages[0])
  const row = isThere && shown.find((m) => m.seq >= opening.seq && isShown(m))
  return { span, key: row ? keyOf(row, me) : '', below: opening?.belowPx ?? 0 }
}
