import type { Outgoing } from '@petrel-im/sdk'
import { memo, type ReactElement } from 'react'
import { dateOf } from '../i18n/dates.js'
import { useTranslation } from '../i18n/index.js'
import { useChatActions } from './actions.js'
import { MessageBubble, PendingBubble } from './MessageBubble.js'
import type { Selection } from './selection.js'
import { asEdited, type Day, type Row } from './timelineRows.js'
import { ServiceLine } from './ServiceLine.js'
import { newestWaiting, WaitLine } from './WaitLine.js'

/** The properties of all rows of a timeline. */
interface Rest {
  readonly me: string
  readonly many: boolean // a group
  readonly pending: readonly Outgoing[]
  readonly conv: string
  readonly selection: Selection | undefined // undefined: nothing is being selected
  readonly replies: ReadonlyMap<number, number> // the number of messages in the thread of each root
  readonly lit: number // seq of the message that a jump has brought the person to
}

/** The messages of a day, below its date. A click on the date lets the person choose another day. */
export const DaySection = memo(function DaySection({ day, selection, replies, ...rest }: { readonly day: Day } & Rest): ReactElement {
  const translation = useTranslation()
  const { chooseDay } = useChatActions()
  const label = dateOf(day.ms, translation)
  return (
    <section aria-label={label}>
      <div className="day"><button type="button" tabIndex={-1} title={translation.t('jumpToDate')} onClick={() => chooseDay(day.ms)}>{label}</button></div>
      <ol>{day.rows.map((row) => <Line key={row.key} row={row} selected={selection && row.kind === 'message' ? selection.has(row.message.seq) : undefined} replies={row.kind === 'message' ? replies.get(row.message.seq) ?? 0 : 0} {...rest} />)}</ol>
    </section>
  )
})

type LineRest = Omit<Rest, 'selection' | 'replies'> & { readonly selected: boolean | undefined; readonly replies: number }

const Line = memo(function Line({ row, ...rest }: { readonly row: Row } & LineRest): ReactElement {
  return <li data-key={row.key} tabIndex={-1} className={`line-${row.kind}`}>{content(row, rest)}</li>
})

function content(row: Row, { me, many, pending, conv, lit, selected, replies }: LineRest): ReactElement {
  switch (row.kind) {
    case 'unread':
      return <UnreadLine />
    case 'service':
      return <ServiceLine message={row.message} />
    case 'pending':
      return <><PendingBubble outgoing={row.outgoing} conv={conv} first={row.first} last={row.last} />{row.outgoing === newestWaiting(pending) && <WaitLine />}</>
    case 'message': {
      const { first, last } = row
      const m = asEdited(row.message, pending)
      const own = m.from === me
      const waits = pending.find((o) => o.state === 'sending' && (o.draft.edit?.target === m.seq || o.draft.recall?.target === m.seq))?.draft
      return <MessageBubble message={m} own={own} first={first} last={last} many={many} changing={waits ? waits.edit ? 'edit' : 'recall' : ''} lit={lit === m.seq} selected={selected} replies={replies} />
    }
  }
}

function UnreadLine(): ReactElement {
  const { t } = useTranslation()
  return <div className="unread-line">{t('unreadMessages')}</div>
}
