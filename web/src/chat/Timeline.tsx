import type { Conversation, Message, Outgoing } from '@petrel-im/sdk'
import { useClient, useStatus } from '@petrel-im/sdk/react'
import { Component, memo, type ReactElement, type RefObject, useCallback, useEffect, useImperativeHandle, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { Badge, Icon } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { useEnvironment } from '../environment.js'
import { useTranslation } from '../i18n/index.js'
import { useChatActions } from './actions.js'
import { DaySection } from './DaySection.js'
import { PinBar, usePins } from './PinBar.js'
import { usePlain } from './plainText.js'
import { repliesOf } from './inTimeline.js'
import { useAway } from './hiddenMessages.js'
import { keepPlace, placeIn } from './scrollPositions.js'
import { arrive, useRoving } from './rovingFocus.js'
import { arrange, firstUnread, isShown, keyOf } from './timelineRows.js'
import { type Selection, toggled } from './selection.js'
import { besideOf } from './drawnSpan.js'
import { type Opening, useSpan } from './useSpan.js'

const litMs = 1600

/** The functions of a timeline for other components. */
export interface TimelineControl {
  /**
   * Brings an entry into view. It returns false if the user cannot read the entry, and undefined if the person went
   * elsewhere meanwhile. Errors are those of `HistoryWindow.around`.
   */
  readonly jumpTo: (seq: number) => Promise<boolean | undefined>
  /** Brings the first message at or after ms (Unix ms) into view, or else the last one. */
  readonly jumpToTime: (ms: number) => Promise<void>
  readonly toEnd: () => void
  /** Call it before a message grows: the message then grows downwards, even at the end of the timeline. */
  readonly grow: () => void
}

interface TimelineProps {
  readonly conversation: Conversation
  readonly pending: readonly Outgoing[]
  readonly selection: Selection | undefined
  readonly onSelect: (selection: Selection) => void
  readonly control: RefObject<TimelineControl | null>
}

/** The messages of a conversation, in a view that does not jump while they change. */
export function Timeline({ conversation: v, pending, selection, onSelect, control }: TimelineProps): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const { user } = useStatus()
  const [unreadAfter] = useState(v.unread > 0 ? v.read : undefined) // fixed while the chat is open
  const { account } = useSession()
  const [opening] = useState<Opening>(() => unreadAfter === undefined ? placeIn(account, v.id) : { unreadAfter })
  const away = useAway(v.id)
  const { whole, held, span, shown, view, content, scroller, reached, away: isAwayFromEnd, hidden, toEnd, jumpTo, jumpToTime, onScroll } = useSpan(v.id, user, opening, away)
  const unreadAt = useRef<number | undefined>(undefined)
  if (unreadAt.current === undefined && unreadAfter !== undefined && (held.isOldest || (held.messages[0]?.seq ?? Infinity) <= unreadAfter + 1)) {
    unreadAt.current = firstUnread(held.messages, user, unreadAfter)
  }
  const line = unreadAt.current
  const inMain = useMemo(() => pending.filter((o) => !o.draft.thread || o.draft.alsoMain), [pending])
  const days = useMemo(() => arrange(shown, span.to === Infinity ? inMain : noPending, user, line, besideOf(held.messages, span)), [shown, held, span, inMain, user, line])
  const replies = useReplies(whole.messages, client.messages(v.id))
  const [lit, setLit] = useState(0)
  const { isSeen, onSeen } = useEnvironment()
  const { jumpTo: jumpOrSay } = useChatActions()
  const pins = usePins(v.id)

  const now = useRef({ shown, selection })
  now.current = { shown, selection }
  const pick = useCallback((key: string, way: 'toggle' | 'add') => {
    const { shown: among, selection: was = noSelection } = now.current
    const m = among.find((one) => keyOf(one, user) === key && isShown(one))
    if (!m || way === 'add' && was.has(m.seq)) return
    now.current.selection = toggled(was, m) // the next call for the same key press adds to it
    onSelect(now.current.selection)
  }, [onSelect, user])
  const roving = useRoving(pick)

  const jump = useCallback(async (seq: number) => {
    const there = await jumpTo(seq)
    if (there) setLit(seq)
    return there
  }, [jumpTo])
  useImperativeHandle(control, () => ({ jumpTo: jump, jumpToTime, toEnd, grow: () => scroller.current?.holdTop() }), [jump, jumpToTime, scroller, toEnd])
  useEffect(() => {
    if (lit === 0) return undefined
    if (content.current) arrive(content.current)
    const timer = setTimeout(() => setLit(0), litMs)
    return () => clearTimeout(timer)
  }, [content, lit])

  // The buttons that lead to a mention or to the end disappear when the view is there. If one of them had the focus,
  // the focus would be lost, so it moves to a message.
  const onWay = useRef(false)
  useLayoutEffect(() => {
    if (!onWay.current || document.activeElement !== document.body || !content.current) return
    onWay.current = false
    arrive(content.current)
  })

  // Messages in view become read, but only while the person sees the page.
  const read = useCallback(() => {
    if ((whole.messages.at(-1)?.seq ?? 0) <= v.read || !isSeen()) return
    const key = scroller.current?.lastSeen()
    const seen = shown.findLast((m) => keyOf(m, user) === key)
    const among = span.to === Infinity ? whole.messages : shown // an entry without a row, such as one of a thread, is read with the last entry that has one
    const upTo = seen && seen.seq === shown.findLast(isShown)?.seq ? among.at(-1)?.seq ?? 0 : seen?.seq ?? 0
    if (upTo > v.read) client.markRead(v.id, upTo)
  }, [client, isSeen, scroller, shown, span.to, user, v.id, v.read, whole])
  useEffect(() => {
    if (!hidden) read()
    return onSeen(read)
  }, [hidden, read, onSeen])

  // The reading position is kept for the next time that this chat is opened.
  const seen = useRef(shown)
  seen.current = shown
  useLayoutEffect(() => {
    const left = (): void => {
      const at = scroller.current?.place
      if (!at && !reached.current) return // the view never came to the kept position, so that one stays
      const row = at && seen.current.find((m) => keyOf(m, user) === at.key)
      keepPlace(account, v.id, at && row && { seq: row.seq, belowPx: at.belowPx })
    }
    addEventListener('pagehide', left)
    return () => {
      removeEventListener('pagehide', left)
      left()
    }
  }, [account, reached, scroller, user, v.id])

  // After an own send the view goes to the end, wherever it was.
  const newest = inMain.at(-1)?.id
  const sent = useRef(newest)
  useEffect(() => {
    if (newest !== undefined && newest !== sent.current) toEnd()
    sent.current = newest
  }, [newest, toEnd])

  return (
    <div className="timeline">
      {pins.length > 0 && <PinBar pins={pins} onJump={jumpOrSay} />}
      <div className="timeline-view" ref={view} onScroll={(e) => { onScroll(); read(); showDay(e.currentTarget); if (line !== undefined) clearLine(e.currentTarget) }}>
        <div className="timeline-content" ref={content} {...roving}>
          <BeforeDrawing do={() => scroller.current?.remember()} />
          {days.map((day) => <DaySection key={day.key} day={day} me={user} many={v.kind === 'group'} pending={pending} conv={v.id} selection={selection} replies={replies} lit={lit} />)}
        </div>
      </div>
      {(isAwayFromEnd || v.mentions.length > 0) && (
        <div className="timeline-ways" onFocus={() => { onWay.current = true }} onBlur={() => { onWay.current = false }}>
          {v.mentions.length > 0 && (
            <button type="button" className="way" aria-label={t('toMention')} title={t('toMention')} onClick={() => jumpOrSay(v.mentions[0] ?? 0)}>
              <span aria-hidden="true" className="way-at">@</span><Badge count={v.mentions.length} label={t('mentionsUnread', { n: v.mentions.length })} />
            </button>
          )}
          {isAwayFromEnd && (
            <button type="button" className="way" aria-label={t('toNewest')} title={t('toNewest')} onClick={toEnd}>
              <Icon name="down" />{v.unread > 0 && <Badge count={v.unread} label={t('unreadCount', { n: v.unread })} />}
            </button>
          )}
        </div>
      )}
      <Announcer newest={v.last} me={user} />
    </div>
  )
}

const dayMs = 1200 // so long after the last scroll the day above the messages fades
const scrolled = new WeakMap<HTMLElement, number>() // the time of the last scroll, while the day shows

/** Shows the day of the messages in view while the person scrolls, above the messages. */
function showDay(view: HTMLElement): void {
  const shows = scrolled.has(view)
  scrolled.set(view, performance.now())
  if (shows) return
  view.classList.add('scrolling')
  const fade = (): void => {
    const left = (scrolled.get(view) ?? 0) + dayMs - performance.now()
    if (left > 0) {
      setTimeout(fade, left)
      return
    }
    scrolled.delete(view)
    view.classList.remove('scrolling')
  }
  setTimeout(fade, dayMs)
}

/** Hides the day above the messages where the line of unread messages would overlap it. */
function clearLine(view: HTMLElement): void {
  const line = view.querySelector('.unread-line')
  const day = line?.closest('section')?.querySelector<HTMLElement>('.day')
  if (!line || !day) return
  const [at, of] = [line.getBoundingClientRect(), day.getBoundingClientRect()]
  day.classList.toggle('day-gone', at.top < of.bottom && at.bottom > of.top)
}

/** Returns the number of messages in the thread of each root: the same object while the numbers are the same. */
function useReplies(whole: readonly Message[], newest: readonly Message[]): ReadonlyMap<number, number> {
  const last = useRef<ReadonlyMap<number, number>>(noReplies)
  return useMemo(() => {
    const now = repliesOf(whole === newest ? whole : [...whole, ...newest])
    if (now.size !== last.current.size || [...now].some(([root, n]) => last.current.get(root) !== n)) last.current = now
    return last.current
  }, [whole, newest])
}

/** Runs a function each time before React changes the page, because the former scroll position is lost afterwards. */
class BeforeDrawing extends Component<{ readonly do: () => void }> {
  override getSnapshotBeforeUpdate(): null {
    this.props.do()
    return null
  }

  override componentDidUpdate(): void {
    // React calls getSnapshotBeforeUpdate only if this method exists.
  }

  override render(): null {
    return null
  }
}

const noReplies: ReadonlyMap<number, number> = new Map()
const noPending: readonly Outgoing[] = []
const noSelection: Selection = new Map()

/**
 * Announces the newest message to screen readers, if it came after the chat was opened, is of another user, and has a
 * text.
 */
const Announcer = memo(function Announcer({ newest, me }: { readonly newest: Message | undefined; readonly me: string }): ReactElement {
  const begun = useRef(newest?.seq ?? 0)
  const name = useName(newest?.from ?? '')
  const text = usePlain(newest?.text, newest?.rel)
  const said = newest && newest.seq > begun.current && newest.from !== me && newest.text !== undefined ? `${name}: ${text}` : ''
  return <div className="unseen" aria-live="polite">{said}</div>
})
