import type { Conversation } from '@petrel-im/sdk'
import { useClient, useConversations, useStatus } from '@petrel-im/sdk/react'
import { type KeyboardEvent, type ReactElement, type ReactNode, type RefObject, useCallback, useDeferredValue, useEffect, useMemo, useRef, useState } from 'react'
import { activeIn, Badge, Icon, IconButton, isComposing, SearchField } from '../../ui/index.js'
import { isNamed } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { ConnectionLine } from '../connection.js'
import { nextUnmuted, useAfter } from '../chat/mute.js'
import { useTranslation } from '../i18n/index.js'
import { useGo, useRoute } from '../environment.js'
import { isNarrow, useNarrow } from '../useNarrow.js'
import { ChatRow } from './ChatRow.js'
import { chatRoute, inOrder, isListed, isMuted, isRequest, matches } from './chatList.js'
import { type Beginning, NewDialog } from './NewDialog.js'
import { usePeople, useRequests } from './usePeople.js'
import { PeopleResult, PersonRow } from './PeopleResult.js'
import { Welcome } from './Welcome.js'
import './sidebar.css'

const rowPx = 72
const mostPeople = 20 // the most users that a search shows beside the conversations

/** Conversations that have a list of their own, behind a row of the main list. */
const folders = ['messageRequests', 'archive'] as const
type Folder = typeof folders[number]

interface SidebarProps {
  readonly search: RefObject<HTMLInputElement | null>
  readonly menu: (onBegin: (what: Beginning) => void) => ReactNode // the menu before the search
}

/** The conversations of the account, and the search in them. */
export function Sidebar({ search, menu }: SidebarProps): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const session = useSession()
  const { user } = session
  const route = useRoute()
  const go = useGo()
  const all = useConversations()
  const requests = useRequests()
  const { synced } = useStatus()
  const [wanted, setWanted] = useState('')
  const [folder, setFolder] = useState<Folder | undefined>(undefined)
  const [creating, setCreating] = useState<Beginning>(undefined)
  // The rows in view are drawn first; none on a phone while a chat covers the list.
  const inView = isNarrow() && (route.conv || route.user) ? 0 : Math.ceil(innerHeight / rowPx)
  const drawn = useDeferredValue(Infinity, inView)
  const listed = useMemo(() => inOrder(client, all.filter(isListed)), [client, all])
  useWatch(listed)

  const searching = wanted.trim() !== ''
  const inFolder = useMemo(() => ({ archive: listed.filter((v) => v.personal.archived), messageRequests: inOrder(client, all.filter(isRequest)) }), [client, all, listed])
  const opened = searching ? undefined : folder
  const chats = searching ? listed.filter((v) => matches(v, wanted, session)) : folder ? inFolder[folder] : listed.filter((v) => !v.personal.archived && (!v.left || isOpen(v, route)))
  const known = usePeople(searching)
  const people = searching ? known.filter((u) => !chats.some((v) => v.peer === u) && isNamed(u, wanted, session)).slice(0, mostPeople) : []
  const routeNow = useRef(route)
  routeNow.current = route
  const choose = useCallback((v: Conversation): void => { // one function for good, so that unchanged rows are not drawn again
    setWanted('')
    if (isOpen(v, routeNow.current)) (search.current?.getRootNode() as ParentNode | undefined)?.querySelector<HTMLElement>('.composer-field')?.focus() // a chat that opens focuses its field too
    else go(chatRoute(user, v))
  }, [go, search, user])
  const tabStop = chats.find((v) => isOpen(v, route)) ?? chats[0] // one stop of Tab; arrows go from row to row
  const pressed = (e: KeyboardEvent<HTMLElement>): void => {
    if (isComposing(e)) return
    const rows = [...e.currentTarget.querySelectorAll<HTMLElement>('.chat-row, .people-row')]
    const at = rows.indexOf(activeIn(e.currentTarget) as HTMLElement)
    const to = e.altKey ? undefined : { ArrowDown: at + 1, ArrowUp: at - 1 }[e.key] // Alt with an arrow opens the next conversation
    if (to !== undefined && (at >= 0 || e.key === 'ArrowDown')) {
      e.preventDefault()
      if (to < 0) search.current?.focus()
      else rows[Math.min(to, rows.length - 1)]?.focus()
    } else if (e.key === 'Enter' && e.target === search.current) rows[0]?.click()
    else if (e.key === 'Escape' && (searching || folder)) {
      e.preventDefault()
      setWanted('')
      setFolder(undefined)
    }
  }
  return (
    <nav className="sidebar" aria-label={t('conversations')} onKeyDown={pressed}>
      <header className="sidebar-header">
        {opened ? <IconButton icon="back" label={t('back')} onClick={() => setFolder(undefined)} /> : (
          <span className="sidebar-menu">
            {menu(setCreating)}
            {requests > 0 && <Badge count={requests} label={t('requestsWait', { n: requests })} />}
          </span>
        )}
        <SearchField ref={search} label={t('searchOrStart')} clearLabel={t('clear')} value={wanted} onValue={setWanted} />
      </header>
      <button type="button" className="new-chat-button" aria-label={t('newChat')} title={t('newChat')} onClick={() => setCreating('chat')}><Icon name="write" /></button>
      <ConnectionLine />
      <div className="sidebar-list">
        {opened && <h2 className="sidebar-part">{t(opened)}</h2>}
        {!searching && !folder && folders.map((f) => inFolder[f].length > 0 && <FolderRow key={f} folder={f} chats={inFolder[f]} onOpen={() => setFolder(f)} />)}
        <ul>{chats.slice(0, drawn).map((v) => <li key={v.id} className="chat-item"><ChatRow conversation={v} selected={isOpen(v, route)} tabStop={v === tabStop} onSelect={choose} /></li>)}</ul>
        {people.length > 0 && <h2 className="sidebar-part">{t('people')}</h2>}
        {people.map((u) => <PersonRow key={u} user={u} onOpen={() => { setWanted(''); go({ account: user, user: u }) }} />)}
        {searching && <PeopleResult key={wanted} wanted={wanted} known={chats} shown={people} onOpen={() => setWanted('')} />}
        {!searching && chats.length === 0 && (synced ? <Empty folder={folder} /> : <FirstLoad />)}
      </div>
      <NewDialog open={creating} onOpen={setCreating} />
    </nav>
  )
}

function Empty({ folder }: { readonly folder: Folder | undefined }): ReactElement {
  const { t } = useTranslation()
  const narrow = useNarrow() // otherwise the other pane shows the welcome
  return !folder && narrow ? <Welcome /> : <p className="sidebar-empty">{t(folder === 'archive' ? 'archiveEmpty' : folder ? 'noRequests' : 'noConversations')}</p>
}

/** Grey rows in place of conversations that are still loading. They show only if that takes a moment. */
function FirstLoad(): ReactElement {
  const { t } = useTranslation()
  return <div className="first-load" role="status" aria-label={t('loading')}>{[0, 1, 2, 3, 4, 5].map((i) => <div className="chat-row" key={i}><span className="first-load-picture" /><span className="first-load-text" /></div>)}</div>
}

function isOpen(v: Conversation, route: { readonly conv: string; readonly user: string }): boolean {
  return route.conv === v.id || v.kind === 'direct' && route.user === v.peer
}

const mostWatched = 200 // P-13.5

/** Watches the presence of the other users in the first direct conversations of the list. */
function useWatch(listed: readonly Conversation[]): void {
  const { user, watch } = useSession()
  const peers = listed.map((v) => v.peer).filter((peer) => peer !== '' && peer !== user).slice(0, mostWatched).sort().join(' ')
  useEffect(() => watch(peers === '' ? [] : peers.split(' ')), [watch, peers])
}

function FolderRow({ folder, chats, onOpen }: { readonly folder: Folder; readonly chats: readonly Conversation[]; readonly onOpen: () => void }): ReactElement {
  const { t } = useTranslation()
  useAfter(nextUnmuted(chats))
  const unread = chats.filter((v) => v.unread > 0 && !isMuted(v)).length
  return (
    <button type="button" className="archive-row" onClick={onOpen}>
      <Icon name={folder === 'archive' ? folder : 'person'} /><span className="row-text">{t(folder)}</span>
      {chats.some((v) => v.mentions.length > 0) && <span className="badge badge-round" role="img" aria-label={t('mentionsUnread', { n: chats.reduce((n, v) => n + v.mentions.length, 0) })}>@</span>}
      {folder === 'archive' ? unread > 0 && <Badge count={unread} muted label={t('unreadChats', { n: unread })} /> : <span className="row-note">{chats.length}</span>}
    </button>
  )
}
