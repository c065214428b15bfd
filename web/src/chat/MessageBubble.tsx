import { type Message, needsNewerVersion, type Outgoing } from '@petrel-im/sdk'
import { type CSSProperties, memo, type MouseEvent, type ReactElement, useMemo, useState } from 'react'
import { useName } from '../account/useName.js'
import { fullDate, timeOf } from '../i18n/dates.js'
import { useTranslation } from '../i18n/index.js'
import { Avatar, Button, hueOf, Icon, IconButton, type MenuPlace, selectedText } from '../../ui/index.js'
import { longPressHandlers } from '../longPress.js'
import { useChatActions } from './actions.js'
import { Body } from './Body.js'
import { failureText, isTooLong } from './failureText.js'
import { isEmojiOnly } from './markup.js'
import { QuoteBlock } from './QuoteBlock.js'
import { Reactions } from './Reactions.js'
import { keyOf, ownKey } from './timelineRows.js'
import { type Fate, fateOf, Ticks } from './Ticks.js'

const nobody: ReadonlySet<string> = new Set()

interface BubbleProps {
  readonly message: Message
  readonly own: boolean
  readonly first: boolean
  readonly last: boolean
  readonly many: boolean // a group: the author is shown
  readonly changing: 'edit' | 'recall' | '' // the change that waits for the server
  readonly lit: boolean // a jump has brought the person here
  readonly selected: boolean | undefined // undefined: nothing is being selected
  readonly replies: number // the number of messages in its thread
}

/** A stored message. */
export const MessageBubble = memo(function MessageBubble({ message: m, own, first, last, many, changing, lit, selected, replies }: BubbleProps): ReactElement {
  const { t } = useTranslation()
  const actions = useChatActions()
  const [near, setNear] = useState(false) // the pointer is near: only then the tools are drawn, because they are expensive
  const recalled = m.recalledBy > 0
  const large = !recalled && m.text !== undefined && isEmojiOnly(m.text) && !m.rel?.replyTo
  const open = (at: MenuPlace): void => actions.menu(m, at)
  const selects = selected !== undefined
  const clicked = (e: MouseEvent<HTMLElement>): void => {
    if (selects || selectedText(e.currentTarget) !== '') return
    e.preventDefault()
    open({ x: e.clientX, y: e.clientY, of: e.currentTarget })
  }
  const meta = <Meta ms={m.timeMs} edited={(m.editedBy > 0 || changing === 'edit') && !recalled} pinned={m.pinned} fate={own && !recalled ? changing ? 'sending' : fateOf(m) : undefined} />
  return (
    <div className={`${shape(own, first, last, large, lit)}${selected ? ' selected' : ''}`} onContextMenu={clicked} onPointerEnter={() => setNear(true)} onPointerLeave={() => setNear(false)} {...(selects ? { onClick: () => actions.select(m) } : longPressHandlers(open))}>
      {selects && !recalled && <span className="message-check" role="checkbox" aria-checked={selected} aria-label={t('select')}>{selected && <Icon name="check" small />}</span>}
      {many && !own && (last ? <button type="button" className="bubble-avatar" tabIndex={-1} aria-hidden="true" onClick={() => actions.openUser(m.from)}><Author user={m.from} picture /></button> : <span className="bubble-avatar" />)}
      <div className="bubble">
        {many && !own && first && <button type="button" tabIndex={-1} className="bubble-from cut" style={{ '--hue': hueOf(m.from) } as CSSProperties} dir="auto" onClick={() => actions.openUser(m.from)}><Author user={m.from} /></button>}
        {!recalled && m.rel?.forwarded && <Forwarded from={m.rel.forwarded.from} />}
        {m.rel !== undefined && m.rel.thread > 0 && <button type="button" tabIndex={-1} className="bubble-thread" onClick={() => actions.thread(m.rel?.thread ?? 0)}><Icon name="thread" small />{t('thread')}</button>}
        {!recalled && m.rel && m.rel.replyTo > 0 && <QuoteBlock conv={m.conv} seq={m.rel.replyTo} onOpen={actions.jumpTo} />}
        <div className="bubble-text">
          <Said message={m} own={own} />
          {m.reactions.length === 0 && meta}
        </div>
        {m.reactions.length > 0 && <Reactions message={m}>{meta}</Reactions>}
        {replies > 0 && <button type="button" tabIndex={-1} className="bubble-replies" onClick={() => actions.thread(m.seq)}><Icon name="thread" small />{t('replies', { n: replies })}</button>}
      </div>
      {near && !recalled && !selects && (
        <div className="bubble-tools">
          <IconButton small icon="reply" label={t('reply')} tabIndex={-1} onClick={() => actions.reply(m)} />
          <IconButton small icon="more" label={t('more')} tabIndex={-1} aria-haspopup="menu" onClick={(e) => actions.menu(m, { x: e.clientX, y: e.clientY })} />
        </div>
      )}
    </div>
  )
})

function shape(own: boolean, first: boolean, last: boolean, large: boolean, lit: boolean): string {
  return `message${own ? ' own' : ''}${first ? ' first' : ''}${last ? ' last' : ''}${large ? ' large' : ''}${lit ? ' lit' : ''}`
}

function Author({ user, picture }: { readonly user: string; readonly picture?: boolean }): ReactElement {
  const name = useName(user)
  return picture ? <Avatar id={user} name={name} size={34} /> : <>{name}</>
}

function Forwarded({ from }: { readonly from: string }): ReactElement {
  const { t } = useTranslation()
  const name = useName(from)
  return <div className="forwarded cut"><Icon name="forward" small /><span dir="auto">{from ? t('forwardedFrom', { name }) : t('forwarded')}</span></div>
}

/** Returns the users that a message mentions; '*' stands for all. */
function mentionsIn(users: readonly string[] | undefined, all: boolean | undefined): ReadonlySet<string> {
  return users?.length || all ? new Set([...users ?? [], ...all ? ['*'] : []]) : nobody
}

function Said({ message: m, own }: { readonly message: Message; readonly own: boolean }): ReactElement {
  const { t } = useTranslation()
  const rel = m.rel
  const mentions = useMemo(() => mentionsIn(rel?.mentions, rel?.mentionAll), [rel])
  if (m.recalledBy > 0) return <em className="body gone">{t(own ? 'recalledByYou' : 'recalled')}</em>
  if (m.text !== undefined) return <Body text={m.text} mentions={mentions} of={keyOf(m, own ? m.from : '')} />
  return <em className="body gone">{t(needsNewerVersion(m) ? 'newerVersion' : 'otherKind')}</em>
}

function Meta({ ms, edited, pinned, fate }: { readonly ms: number; readonly edited: boolean; readonly pinned: boolean; readonly fate: Fate | undefined }): ReactElement {
  const translation = useTranslation()
  const { t } = translation
  return (
    <span className="meta">
      {pinned && <span role="img" aria-label={t('pinned')} title={t('pinned')} className="meta-pin"><Icon name="pin" small /></span>}
      {edited && <span>{t('edited')}</span>}
      <time dateTime={new Date(ms).toISOString()} onPointerEnter={(e) => { e.currentTarget.title = fullDate(ms, translation) }}>{timeOf(ms, translation)}</time>
      {fate && <Ticks fate={fate} />}
    </span>
  )
}

/**
 * A pending message. A failed one says why, and has a button that sends it again, or, if it is too long, puts it back
 * into the field.
 */
export const PendingBubble = memo(function PendingBubble({ outgoing: o, conv, first, last }: { readonly outgoing: Outgoing; readonly conv: string; readonly first: boolean; readonly last: boolean }): ReactElement {
  const { t } = useTranslation()
  const actions = useChatActions()
  const { draft, state } = o
  const failed = state === 'rejected' || state === 'unknowable'
  const text = draft.text ?? draft.edit?.text
  const large = !failed && text !== undefined && isEmojiOnly(text) && !draft.replyTo
  const mentions = useMemo(() => mentionsIn(draft.mentions, draft.mentionAll), [draft])
  const [near, setNear] = useState(false)
  const open = (at: MenuPlace): void => {
    if (text !== undefined) actions.waitingMenu(o, at)
  }
  const clicked = (e: MouseEvent<HTMLElement>): void => {
    if (text === undefined || selectedText(e.currentTarget) !== '') return
    e.preventDefault()
    open({ x: e.clientX, y: e.clientY, of: e.currentTarget })
  }
  return (
    <div className={shape(true, first, last, large, false)} onContextMenu={clicked} onPointerEnter={() => setNear(true)} onPointerLeave={() => setNear(false)} {...longPressHandlers(open)}>
      <div className={state === 'rejected' ? 'bubble bubble-failed' : failed ? 'bubble bubble-unknown' : 'bubble'}>
        {draft.forward && <div className="forwarded"><Icon name="forward" small />{t('forwarded')}</div>}
        {draft.replyTo !== undefined && conv !== '' && <QuoteBlock conv={conv} seq={draft.replyTo} onOpen={actions.jumpTo} />}
        <div className="bubble-text">
          {text === undefined ? <em className="body gone">{t(draft.recall ? 'recall' : 'forwarding')}</em> : <Body text={text} mentions={mentions} of={ownKey(o.id)} />}
          <Meta ms={o.composedMs} edited={false} pinned={false} fate={state === 'sent' ? 'stored' : state} />
        </div>
        {failed && (
          <div className="failure" role="alert">
            <p>{failureText(o, t)}</p>
            <div className="failure-tools">
              {isTooLong(o) && draft.text !== undefined
                ? <Button small tabIndex={-1} onClick={() => actions.change(o)}>{t('edit')}</Button>
                : <Button small tabIndex={-1} onClick={() => actions.again(o)}>{t(state === 'rejected' ? 'retry' : 'sendAgain')}</Button>}
              <Button small look="danger" tabIndex={-1} onClick={() => actions.discard(o)}>{t('discard')}</Button>
            </div>
          </div>
        )}
      </div>
      {near && text !== undefined && <div className="bubble-tools"><IconButton small icon="more" label={t('more')} tabIndex={-1} aria-haspopup="menu" onClick={(e) => open({ x: e.clientX, y: e.clientY })} /></div>}
    </div>
  )
})
