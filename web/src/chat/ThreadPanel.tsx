import type { Conversation, Message, Outgoing } from '@petrel-im/sdk'
import { useStatus } from '@petrel-im/sdk/react'
import { type KeyboardEvent, type ReactElement, type RefObject, useLayoutEffect, useMemo, useRef } from 'react'
import { Button, IconButton, isComposing } from '../../ui/index.js'
import { dayOf } from '../i18n/dates.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { useAway } from './hiddenMessages.js'
import { isAway } from './inTimeline.js'
import { Composer, type ComposerControl, type Intent } from './Composer.js'
import { DaySection } from './DaySection.js'
import { enterByNewest, useRoving } from './rovingFocus.js'
import { arrange, asEdited, type Day } from './timelineRows.js'
import { Scroller } from './Scroller.js'
import { useThread } from './useThread.js'

interface ThreadProps {
  readonly conversation: Conversation
  readonly root: number // seq
  readonly chat: string // the key of the draft
  readonly pending: readonly Outgoing[]
  readonly intent: Intent
  readonly onIntent: (intent: Intent) => void
  readonly control: RefObject<ComposerControl | null>
  readonly onClose: () => void
}

/** The thread of one message, beside the conversation. */
export default function ThreadPanel({ conversation: v, root, chat, pending: all, intent, onIntent, control, onClose }: ThreadProps): ReactElement {
  const { t } = useLaterTranslation()
  const { user } = useStatus()
  const found = useThread(v.id, root)
  const away = useAway(v.id)
  const thread = useMemo(() => {
    const seen = (m: Message): boolean => !isAway(m.seq, away)
    return { ...found, root: found.root && seen(found.root) ? found.root : undefined, before: found.before.filter(seen), after: found.after.filter(seen) }
  }, [found, away])
  const pending = useMemo(() => all.filter((o) => isOf(o, root, [...thread.before, ...thread.after])), [all, root, thread.before, thread.after])
  const said = [...thread.before, ...thread.after]
  const count = Math.max(0, ...said.map((m) => m.threadN))
  const lastOwn = (): Message | undefined => {
    const own = said.findLast((m) => m.from === user && m.text !== undefined && m.recalledBy === 0)
    return own && asEdited(own, pending)
  }
  const pressed = (e: KeyboardEvent): void => {
    if (e.key !== 'Escape' || isComposing(e) || e.defaultPrevented || (e.target as Element).closest('dialog, [role="menu"]')) return
    e.preventDefault()
    onClose()
  }
  return (
    <aside className="thread" aria-label={t('thread')} onKeyDown={pressed}>
      <header className="info-header">
        <IconButton icon="close" label={t('close')} onClick={onClose} />
        <div className="chat-title-text">
          <h2>{t('thread')}</h2>
          <span className="chat-subtitle cut">{count > 0 ? t('replies', { n: count }) : t('noReplies')}</span>
        </div>
      </header>
      <Replies conversation={v} thread={thread} pending={pending} me={user} />
      {!v.left && <Composer label={t('replyInThread')} chat={`${chat}/${root}`} conv={v.id} peer={v.peer} thread={root} conversation={v} pending={pending} intent={intent} onIntent={onIntent} lastOwn={lastOwn} control={control} />}
    </aside>
  )
}

/**
 * Whether a pending message belongs to the thread: as an answer, or as the edit or recall of a message of the thread.
 */
function isOf({ draft }: Outgoing, root: number, said: readonly Message[]): boolean {
  const target = draft.edit?.target ?? draft.recall?.target
  return target === undefined ? draft.thread === root : target === root || said.some((m) => m.seq === target)
}

interface RepliesProps {
  readonly conversation: Conversation
  readonly thread: ReturnType<typeof useThread>
  readonly pending: readonly Outgoing[]
  readonly me: string
}

/** The root, and the answers below it. While the view is at its end, it stays there. */
function Replies({ conversation: v, thread: { root, before, after, more, isWhole }, pending, me }: RepliesProps): ReactElement {
  const { t } = useLaterTranslation()
  const view = useRef<HTMLDivElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const scroller = useRef<Scroller | undefined>(undefined)
  const roving = useRoving(noPick)
  const parts = useMemo(() => [arrange(root ? [root] : [], none, me), arrange(before, isWhole ? pending : none, me), arrange(after, isWhole ? none : pending, me)], [root, before, after, isWhole, pending, me])
  useLayoutEffect(() => {
    if (!view.current || !content.current) return undefined
    const s = new Scroller(view.current, content.current)
    scroller.current = s
    const resized = new ResizeObserver(() => s.restore(true))
    resized.observe(view.current)
    resized.observe(content.current)
    return () => resized.disconnect()
  }, [])
  useLayoutEffect(() => {
    scroller.current?.drawn()
    scroller.current?.restore(true)
    if (content.current) enterByNewest(content.current)
  })
  const newest = pending.at(-1)?.id
  useLayoutEffect(() => {
    if (newest !== undefined) scroller.current?.toEnd() // after an own send the view goes to the end
  }, [newest])
  const section = (part: number): ReactElement[] => (parts[part] ?? []).map((day) => <DaySection key={`${part} ${day.key}`} day={day} me={me} many={v.kind === 'group'} pending={pending} conv={v.id} selection={undefined} replies={noReplies} lit={0} />)
  return (
    <div className="timeline">
      <div className="timeline-view" ref={view} onScroll={() => scroller.current?.remember()}>
        <div className="timeline-content thread-content" ref={content} {...roving}>
          {section(0)}
          <div className={sameDay(parts[0]?.at(-1), (parts[1]?.[0] ?? parts[2]?.[0])) ? 'thread-line same-day' : 'thread-line'}><span>{before.length + after.length + pending.length > 0 ? t('threadNote') : t('noReplies')}</span></div>
          {section(1)}
          {more && <div className="thread-line"><Button small onClick={more}>{t('showAll')}</Button></div>}
          {section(2)}
        </div>
      </div>
    </div>
  )
}

/** Whether the answers begin on the day of the root; the date is above the root then. */
function sameDay(a: Day | undefined, b: Day | undefined): boolean {
  return a !== undefined && b !== undefined && dayOf(a.ms) === dayOf(b.ms)
}

const none: readonly never[] = []
const noReplies: ReadonlyMap<number, number> = new Map()
const noPick = (): void => {}
