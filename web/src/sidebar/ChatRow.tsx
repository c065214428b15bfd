import type { Conversation, Draft, Message } from '@petrel-im/sdk'
import { useClient, usePresence } from '@petrel-im/sdk/react'
import { memo, type ReactElement, useState } from 'react'
import { Avatar, Badge, Icon, Menu, MenuItem, type MenuPlace } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { useAway } from '../chat/hiddenMessages.js'
import { ClearDialog } from '../chat/ClearDialog.js'
import { isAway } from '../chat/inTimeline.js'
import { MuteItem, MuteMark, MuteTimes, useMuted } from '../chat/mute.js'
import { plainText } from '../chat/markup.js'
import { usePlain } from '../chat/plainText.js'
import { asEdited, isSaid, isShown } from '../chat/timelineRows.js'
import { ServiceText } from '../chat/ServiceLine.js'
import { fateOf, Ticks } from '../chat/Ticks.js'
import { Typing } from '../chat/Typing.js'
import { useDraft } from '../drafts.js'
import { shortDate } from '../i18n/dates.js'
import { useTranslation } from '../i18n/index.js'
import { longPressHandlers } from '../longPress.js'
import { usePendingOf } from '../clientSnapshot.js'
import { useChatName } from './ChatLine.js'
import { isDissolved, lastMs } from './chatList.js'

/** A row of the list of conversations. */
export const ChatRow = memo(function ChatRow({ conversation: v, selected, tabStop, onSelect }: { readonly conversation: Conversation; readonly selected: boolean; readonly tabStop: boolean; readonly onSelect: (v: Conversation) => void }): ReactElement {
  const translation = useTranslation()
  const { t } = translation
  const client = useClient()
  const { user } = useSession()
  const name = useChatName(v)
  const presence = usePresence(v.peer)
  const [menu, setMenu] = useState<MenuPlace | undefined>(undefined)
  const [mute, setMute] = useState<MenuPlace | undefined>(undefined)
  const [clears, setClears] = useState(false)
  const muted = useMuted(v)
  const away = useAway(v.id)
  const last = v.last && isAway(v.last.seq, away) ? client.messages(v.id).findLast((m) => !isAway(m.seq, away) && isShown(m) && isSaid(m)) : v.last
  const marked = v.unread === 0 && v.personal.unread
  const pending = usePendingOf(v.id, v.peer)
  const waiting = pending.findLast((o) => o.draft.text !== undefined && (o.state === 'sending' || o.state === 'sent'))
  const ms = waiting?.composedMs ?? lastMs(client, v)
  return (
    <>
      <button
        type="button" tabIndex={tabStop ? 0 : -1} className={selected ? 'chat-row selected' : 'chat-row'} aria-current={selected ? 'page' : undefined} aria-haspopup="menu" onClick={() => onSelect(v)}
        onContextMenu={(e) => { e.preventDefault(); setMenu({ x: e.clientX, y: e.clientY }) }} {...longPressHandlers(setMenu)}
      >
        <Avatar id={v.kind === 'group' ? v.id : v.peer} name={name} icon={v.peer === user ? 'bookmark' : undefined} group={v.kind === 'group'} online={v.peer !== user && (presence?.online ?? false)} />
        <span className="chat-row-text">
          <span className="chat-row-line">
            <span className="chat-row-name cut" dir="auto">{name}</span>
            <MuteMark conversation={v} />
            <span className="chat-row-time">
              {waiting ? <Ticks fate={waiting.state === 'sent' ? 'stored' : 'sending'} /> : last?.from === user && last.recalledBy === 0 && <Ticks fate={fateOf(last)} />}
              {ms > 0 && <time>{shortDate(ms, translation)}</time>}
            </span>
          </span>
          <span className="chat-row-line">
            <span className="chat-row-last cut" dir="auto"><Preview conversation={v} last={last && asEdited(last, pending)} cleared={away.clearedTo} selected={selected} failed={pending.some((o) => o.state === 'rejected')} waiting={waiting?.draft} /></span>
            {v.mentions.length > 0 && <span className="badge badge-round" role="img" aria-label={t('mentionsUnread', { n: v.mentions.length })}>@</span>}
            {v.unread > 0 && <Badge count={v.unread} muted={muted} label={t('unreadCount', { n: v.unread })} />}
            {marked && <span className={muted ? 'badge badge-muted badge-round' : 'badge badge-round'} role="img" aria-label={t('markedUnread')} />}
            {v.personal.pinned > 0 && v.unread === 0 && !marked && <Icon name="pin" small />}
          </span>
        </span>
      </button>
      {menu && <ChatMenu conversation={v} at={menu} onMute={() => setMute(menu)} onClear={() => setClears(true)} onClose={() => setMenu(undefined)} />}
      {clears && <ClearDialog conversation={v} onClose={() => setClears(false)} />}
      {mute && <MuteTimes conv={v.id} at={mute} onClose={() => setMute(undefined)} />}
    </>
  )
})

interface PreviewProps {
  readonly conversation: Conversation
  readonly last: Message | undefined
  readonly cleared: number // entries up to this seq are hidden
  readonly selected: boolean
  readonly failed: boolean // a message was refused
  readonly waiting: Draft | undefined // the newest pending message with a text that has not failed
}

/** The last message of a conversation, or what happens in it now: typing, a draft, or a failed or waiting message. */
function Preview({ conversation: v, last: m, cleared, selected, failed, waiting }: PreviewProps): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const { user, account } = useSession()
  const draft = useDraft(account, v.kind === 'direct' ? `@${v.peer}` : v.id)
  const name = useName(v.kind === 'group' && m && m.from !== user ? m.from : '', v.id)
  const said = usePlain(waiting ? waiting.text : m?.text, waiting ?? m?.rel, v.id)
  if (v.typing.length > 0) return <Typing users={v.typing} many={v.kind === 'group'} conv={v.id} />
  if (failed) return <span className="chat-row-failed">{t('fateRejected')}</span>
  if (draft !== '' && !selected) return <><span className="chat-row-draft">{t('draft')} </span>{plainText(draft)}</>
  if (waiting !== undefined) return <Words from={v.kind === 'group' ? t('you') : ''} text={said} />
  if (!m) {
    const happened = client.messages(v.id).findLast((one) => one.seq > cleared && isShown(one)) // a group without messages
    return <>{v.left ? t(isDissolved(client, v) ? 'dissolvedShort' : 'notMemberShort') : happened && !isSaid(happened) ? <ServiceText message={happened} /> : ''}</>
  }
  if (m.recalledBy > 0 && m.from === user) return <>{t('recalledByYou')}</>
  const from = v.kind !== 'group' ? '' : m.from === user ? t('you') : name
  const text = m.recalledBy > 0 ? t('recalled') : m.text === undefined ? t('otherKind') : said
  return <Words from={from} text={text} />
}

function Words({ from, text }: { readonly from: string; readonly text: string }): ReactElement {
  return <>{from && <span className="chat-row-from">{from}: </span>}{text}</>
}

function ChatMenu({ conversation: v, at, onMute, onClear, onClose }: { readonly conversation: Conversation; readonly at: MenuPlace; readonly onMute: () => void; readonly onClear: () => void; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const { pinned, archived } = v.personal
  const looksUnread = v.unread > 0 || v.personal.unread
  const done = (change: Promise<void>): void => void change.catch(() => {}) // after an error the menu still shows the true state
  const nextPin = (): number => Math.max(0, ...client.conversations().map((c) => c.personal.pinned)) + 1
  const read = (): void => {
    client.markRead(v.id, v.head)
    if (v.personal.unread) done(client.markUnread(v.id, false))
  }
  return (
    <Menu at={at} label={t('chatMenu')} onClose={onClose}>
      <MenuItem icon={looksUnread ? 'check' : 'unread'} onSelect={() => looksUnread ? read() : done(client.markUnread(v.id, true))}>{t(looksUnread ? 'markRead' : 'markUnread')}</MenuItem>
      <MenuItem icon="pin" onSelect={() => done(client.pinConversation(v.id, pinned > 0 ? 0 : nextPin()))}>{t(pinned > 0 ? 'unpin' : 'pin')}</MenuItem>
      <MuteItem conversation={v} onMute={onMute} />
      <MenuItem icon="archive" onSelect={() => done(client.archive(v.id, !archived))}>{t(archived ? 'unarchive' : 'toArchive')}</MenuItem>
      <MenuItem icon="trash" danger onSelect={onClear}>{t('clearChat')}</MenuItem>
    </Menu>
  )
}
