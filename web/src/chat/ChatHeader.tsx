import type { Conversation } from '@petrel-im/sdk'
import { useClient, useConversations, useMessages, usePresence, useStatus } from '@petrel-im/sdk/react'
import { type ReactElement, useCallback, useContext, useEffect, useReducer, useState } from 'react'
import { Avatar, Badge, IconButton, Menu, MenuItem, type MenuPlace } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { ConnectionText } from '../connection.js'
import { useTranslation } from '../i18n/index.js'
import { Later } from '../Later.js'
import { useGo, useRoute } from '../environment.js'
import { isDissolved, isListed, isMuted } from '../sidebar/chatList.js'
import { lastSeen } from './lastSeen.js'
import { useMembers } from './useMembers.js'
import { ClearDialog } from './ClearDialog.js'
import { MuteItem, MuteMark, MuteTimes, nextUnmuted, useAfter } from './mute.js'
import { Typing } from './Typing.js'

const loadPins = () => import('../parts.js').then((m) => m.PinsDialog)

/** The name of the other user or of the group, and its state. */
export function ChatHeader({ conversation: v, peer, onJump, onDate }: { readonly conversation: Conversation | undefined; readonly peer: string; readonly onJump: (seq: number) => void; readonly onDate: () => void }): ReactElement {
  const { t } = useTranslation()
  const { user } = useSession()
  const route = useRoute()
  const go = useGo()
  const name = useName(peer)
  const connection = useContext(ConnectionText) // a phone shows either the list, which has this text too, or the chat
  const [menu, setMenu] = useState<MenuPlace | undefined>(undefined)
  const [mute, setMute] = useState<MenuPlace | undefined>(undefined)
  const [clears, setClears] = useState(false)
  const [pins, setPins] = useState(false)
  const closePins = useCallback(() => setPins(false), [])
  const title = peer ? peer === user ? t('notes') : name : v?.title || t('group')
  if (!v && peer === '') return <UnknownHeader />
  return (
    <header className="chat-header">
      <BackButton chat={v?.id ?? ''} />
      <button type="button" className="chat-title" aria-expanded={route.info} onClick={() => go({ ...route, thread: 0, info: !route.info, person: '' }, route.info)}>
        {v?.kind === 'group' ? <Avatar id={v.id} name={title} size={42} group /> : <PeerAvatar name={title} peer={peer} />}
        <span className="chat-title-text">
          <span className="chat-row-line"><h1 className="cut" dir="auto">{title}</h1>{v && <MuteMark conversation={v} />}</span>
          {connection && <span className="chat-subtitle cut only-narrow" role="status">{connection}</span>}
          <span className={connection ? 'chat-subtitle cut only-wide' : 'chat-subtitle cut'}>{v && v.typing.length > 0 ? <Typing users={v.typing} many={v.kind === 'group'} /> : <Subtitle conversation={v} peer={peer} />}</span>
        </span>
      </button>
      {v && <IconButton icon="more" label={t('more')} aria-haspopup="menu" onClick={(e) => {
        const { right, bottom } = e.currentTarget.getBoundingClientRect()
        setMenu({ x: right, y: bottom + 4, isEnd: true })
      }} />}
      {menu && v && (
        <Menu at={menu} label={t('more')} onClose={() => setMenu(undefined)}>
          <MenuItem icon="info" onSelect={() => go({ ...route, thread: 0, info: true, person: '' })}>{t('info')}</MenuItem>
          <MenuItem icon="pin" onSelect={() => setPins(true)}>{t('pinnedMessages')}</MenuItem>
          <MenuItem icon="calendar" onSelect={onDate}>{t('jumpToDate')}</MenuItem>
          <MuteItem conversation={v} onMute={() => setMute(menu)} />
          <MenuItem icon="trash" danger onSelect={() => setClears(true)}>{t('clearChat')}</MenuItem>
        </Menu>
      )}
      {clears && v && <ClearDialog conversation={v} onClose={() => setClears(false)} />}
      {mute && v && <MuteTimes conv={v.id} at={mute} onClose={() => setMute(undefined)} />}
      {pins && v && <Later load={loadPins} onFailed={closePins} of={{ conv: v.id, onJump: (seq: number) => { setPins(false); onJump(seq) }, onClose: closePins }} />}
    </header>
  )
}

/** The header before the name of the conversation is known. */
function UnknownHeader(): ReactElement {
  const { t } = useTranslation()
  const connection = useContext(ConnectionText)
  return (
    <header className="chat-header">
      <BackButton chat="" />
      <div className="chat-title chat-unknown" role="status" aria-label={t('loading')}>
        <span className="chat-unknown-picture" />
        <span className="chat-title-text">
          <span className="chat-unknown-title" />
          {connection && <span className="chat-subtitle cut only-narrow">{connection}</span>}
        </span>
      </div>
    </header>
  )
}

/**
 * A button back to the list, where there is room for one pane only. It shows the number of other unread
 * conversations.
 */
export function BackButton({ chat }: { readonly chat: string }): ReactElement {
  const { t } = useTranslation()
  const { account } = useRoute()
  const go = useGo()
  const all = useConversations()
  useAfter(nextUnmuted(all))
  const unread = all.filter((v) => v.id !== chat && v.unread > 0 && isListed(v) && !isMuted(v) && !v.personal.archived).length
  return (
    <span className="chat-back only-narrow">
      <IconButton icon="back" label={t('back')} onClick={() => go({ account })} />
      {unread > 0 && <Badge count={unread} label={t('unreadChats', { n: unread })} />}
    </span>
  )
}

function PeerAvatar({ name, peer }: { readonly name: string; readonly peer: string }): ReactElement {
  const presence = usePresence(peer)
  const self = useSession().user === peer
  return <Avatar id={peer} name={name} icon={self ? 'bookmark' : undefined} size={42} online={!self && (presence?.online ?? false)} />
}

function Subtitle({ conversation: v, peer }: { readonly conversation: Conversation | undefined; readonly peer: string }): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const presence = usePresence(peer)
  const { state } = useStatus()
  const members = useMembers(v?.kind === 'group' ? v : undefined)
  if (v?.kind === 'group') return <>{v.left ? t(isDissolved(client, v) ? 'dissolvedShort' : 'notMemberShort') : members.length > 0 ? t('memberCount', { n: members.length }) : t('group')}</>
  if (state !== 'live' || !presence) return <>@{peer}</>
  if (presence.online) return <span className="online">{t('online')}</span>
  return presence.lastMs > 0 ? <LastSeen ms={presence.lastMs} peer={peer} conv={v?.id ?? ''} /> : <>@{peer}</>
}

const wordsMs = 60_000 // between two updates of the text

/** Says when a user was last online. */
export function LastSeen({ ms, peer, conv }: { readonly ms: number; readonly peer: string; readonly conv: string }): ReactElement {
  const translation = useTranslation()
  const said = useMessages(conv).findLast((m) => m.from === peer)?.timeMs ?? 0
  const [, again] = useReducer((n: number) => n + 1, 0)
  useEffect(() => {
    const timer = setInterval(again, wordsMs)
    return () => clearInterval(timer)
  }, [])
  return <>{lastSeen(ms, said, translation)}</>
}
