import { type Conversation, type Message, mentionsUser, type Outgoing } from '@petrel-im/sdk'
import { useClient, useMessages, useStatus } from '@petrel-im/sdk/react'
import { Component, memo, type ReactElement, type RefObject, useCallback, useEffect, useImperativeHandle, useMemo, useRef, useState } from 'react'
import { Badge, Icon } from '../../ui/index.js'
import { useEnvironment } from '../environment.js'
import { dateOf } from '../i18n/dates.js'
import { useTranslation } from '../i18n/index.js'
import { MessageBubble, PendingBubble } from './MessageBubble.js'
import { useRoving } from './roving.js'
import { arrange, type Day, isShown, keyOf, type Row } from './rows.js'
import { ServiceLine } from './ServiceLine.js'
import { useSpan } from './useSpan.js'

const litMs = 1600

/** What others may ask of a timeline. */
export interface TimelineControl {
  /** Brings an entry into view. False: it cannot be read. */
  readonly jumpTo: (seq: number) => Promise<boolean>
  readonly toEnd: () => void
}

interface TimelineProps {
  readonly conversation: Conversation
  readonly pending: readonly Outgoing[]
  readonly control: RefObject<TimelineControl | null>
}

/** The messages of a conversation, in a view that stands still while they change. */
export function Timeline({ conversation: v, pending, control }: TimelineProps): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const messages = useMessages(v.id)
  const { user } = useStatus()
  const [unreadAfter] = useState(v.unread > 0 ? v.read : undefined) // fixed while the chat is open
  const dividerKey = useRef(unreadAfter !== undefined && messages.some((m) => m.seq > unreadAfter && m.from !== user && isShown(m)) ? 'unread' : undefined).current
  const { span, shown, view, content, scroller, away, toEnd, jumpTo, onScroll } = useSpan(v.id, messages, dividerKey, unreadAfter)
  const days = useMemo(() => arrange(shown, span.to === Infinity ? pending : noPending, user, unreadAfter), [shown, span, pending, user, unreadAfter])
  const [lit, setLit] = useState(0)
  const roving = useRoving()
  const { isSeen, onSeen } = useEnvironment()

  const jump = useCallback(async (seq: number) => {
    const there = await jumpTo(seq)
    if (there) setLit(seq)
    return there
  }, [jumpTo])
  useImperativeHandle(control, () => ({ jumpTo: jump, toEnd }), [jump, toEnd])
  useEffect(() => {
    if (lit === 0) return undefined
    const timer = setTimeout(() => setLit(0), litMs)
    return () => clearTimeout(timer)
  }, [lit])

  // What the person has in view is read; what a page holds that nobody looks at is not.
  const read = useCallback(() => {
    if (!isSeen()) return
    const key = scroller.current?.lastSeen()
    const seen = shown.findLast((m) => keyOf(m) === key)
    const upTo = seen && seen.seq === shown.findLast(isShown)?.seq ? shown.at(-1)?.seq ?? 0 : seen?.seq ?? 0
    if (upTo > v.read) client.markRead(v.id, upTo)
  }, [client, isSeen, scroller, shown, v.id, v.read])
  useEffect(() => {
    read()
    return onSeen(read)
  }, [read, onSeen])

  // What the person sends is seen by them, wherever they were.
  const newest = pending.at(-1)?.id
  const sent = useRef(newest)
  useEffect(() => {
    if (newest !== undefined && newest !== sent.current) toEnd()
    sent.current = newest
  }, [newest, toEnd])

  return (
    <div className="timeline">
      <div className="timeline-view" ref={view} onScroll={(e) => { onScroll(); read(); showDay(e.currentTarget) }}>
        <div className="timeline-content" ref={content} onKeyDown={roving.onKeyDown} onFocus={roving.onFocus}>
          <BeforeDrawing do={() => scroller.current?.remember()} />
          {days.map((day) => <DaySection key={day.key} day={day} me={user} many={v.kind === 'group'} pending={pending} conv={v.id} lit={lit} />)}
        </div>
      </div>
      {(away || v.mentions.length > 0) && (
        <div className="timeline-ways">
          {v.mentions.length > 0 && (
            <button type="button" className="way" aria-label={t('toMention')} title={t('toMention')} onClick={() => void jump(v.mentions[0] ?? 0)}>
              <span aria-hidden="true" className="way-at">@</span><Badge count={v.mentions.length} label={t('mentionsUnread', { n: v.mentions.length })} />
            </button>
          )}
          {away && (
            <button type="button" className="way" aria-label={t('toNewest')} title={t('toNewest')} onClick={toEnd}>
              <Icon name="down" />{v.unread > 0 && <Badge count={v.unread} label={t('unreadCount', { n: v.unread })} />}
            </button>
          )}
        </div>
      )}
      <Announcer messages={messages} me={user} />
    </div>
  )
}

const dayMs = 1200 // after the last scroll, the day above the messages fades
const fading = new WeakMap<HTMLElement, ReturnType<typeof setTimeout>>()

/** Shows the day of what is in view while the person scrolls. */
function showDay(view: HTMLElement): void {
  clearTimeout(fading.get(view))
  view.classList.add('scrolling')
  fading.set(view, setTimeout(() => view.classList.remove('scrolling'), dayMs))
}

/** Does something each time before the page is changed: after that it is too late to see where the view was. */
class BeforeDrawing extends Component<{ readonly do: () => void }> {
  override getSnapshotBeforeUpdate(): null {
    this.props.do()
    return null
  }

  override componentDidUpdate(): void {
    // Without this React does not call the other one.
  }

  override render(): null {
    return null
  }
}

const noPending: readonly Outgoing[] = []

interface DayProps {
  readonly day: Day
  readonly me: string
  readonly many: boolean
  readonly pending: readonly Outgoing[]
  readonly conv: string
  readonly lit: number
}

function DaySection({ day, me, many, pending, conv, lit }: DayProps): ReactElement {
  const translation = useTranslation()
  const label = dateOf(day.ms, translation)
  return (
    <section aria-label={label}>
      <div className="day"><span>{label}</span></div>
      <ol>{day.rows.map((row) => <li key={row.key} data-key={row.key} tabIndex={-1} className={`line-${row.kind}`}>{content(row, { me, many, pending, conv, lit })}</li>)}</ol>
    </section>
  )
}

function content(row: Row, { me, many, pending, conv, lit }: Omit<DayProps, 'day'>): ReactElement {
  switch (row.kind) {
    case 'unread':
      return <UnreadLine />
    case 'service':
      return <ServiceLine message={row.message} />
    case 'pending':
      return <PendingBubble outgoing={row.outgoing} conv={conv} first={row.first} last={row.last} />
    case 'message': {
      const { message: m, first, last } = row
      const own = m.from === me
      const waits = pending.find((o) => o.state === 'sending' && (o.draft.edit?.target === m.seq || o.draft.recall?.target === m.seq))?.draft
      return <MessageBubble message={m} own={own} first={first} last={last} many={many} toMe={mentionsUser(m, me)} changing={waits ? waits.edit ? 'edit' : 'recall' : ''} lit={lit === m.seq} />
    }
  }
}

function UnreadLine(): ReactElement {
  const { t } = useTranslation()
  return <div className="unread-line">{t('unreadMessages')}</div>
}

/** Tells screen readers what others write while the chat is open, once each. */
const Announcer = memo(function Announcer({ messages, me }: { readonly messages: readonly Message[]; readonly me: string }): ReactElement {
  const newest = messages.at(-1)
  const begun = useRef(newest?.seq ?? 0)
  const said = newest && newest.seq > begun.current && newest.from !== me && newest.text !== undefined ? `${newest.from}: ${newest.text.slice(0, 300)}` : ''
  return <div className="unseen" aria-live="polite">{said}</div>
})
