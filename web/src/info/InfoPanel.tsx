import type { Conversation } from '@petrel-im/sdk'
import { useClient, usePresence, useProfile } from '@petrel-im/sdk/react'
import { type KeyboardEvent, type ReactElement, useEffect, useRef, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { activeIn, Avatar, Button, Field, IconButton, isComposing, type MenuPlace, RowButton, Switch, useToast } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { LastSeen } from '../chat/ChatHeader.js'
import { thrownText } from '../chat/failureText.js'
import { ContactPart } from '../contacts/ContactPart.js'
import { mutedText, MuteTimes, useMuted } from '../chat/mute.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { useGo, useRoute } from '../environment.js'
import { useChat, useOfClient } from '../clientSnapshot.js'
import { ReportDialog } from '../report/ReportDialog.js'
import { GroupInfo } from './GroupInfo.js'
import './info.css'

/**
 * The panel with the details of a conversation and its settings. For a direct conversation it is the profile of the
 * other user. person: the user whose profile is shown beside another conversation; ''.
 */
export function InfoPanel({ conv, peer, person }: { readonly conv: string; readonly peer: string; readonly person: string }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const route = useRoute()
  const go = useGo()
  const toast = useToast()
  const v = useChat(person ? '' : conv, person || peer)
  const isGroup = v?.kind === 'group'
  const other = person || v?.peer || peer
  const first = useRef<HTMLButtonElement>(null)
  const [renaming, setRenaming] = useState(false)
  const said = (why: unknown): void => toast(thrownText(why, t))
  const close = (): void => go({ ...route, info: route.info && person !== '', person: '' }, true)
  const closed = (e: KeyboardEvent): void => {
    if (e.key !== 'Escape' || isComposing(e) || e.defaultPrevented || (e.target as Element).closest('dialog, [role="menu"]')) return
    e.preventDefault()
    close()
  }
  useEffect(() => { // a profile is opened from the middle of another view, and the focus goes back there
    const button = first.current
    if (person === '' || !button) return undefined
    const before = activeIn(button)
    button.focus()
    return () => {
      if (before instanceof HTMLElement) before.focus()
    }
  }, [person])
  const leads = v?.kind === 'group' && !v.left && (v.role === 'owner' || v.role === 'admin')
  return (
    <aside className="info" aria-label={t(isGroup ? 'info' : 'profile')} onKeyDown={closed}>
      <header className="info-header">
        {route.info && person !== '' ? <IconButton ref={first} icon="back" label={t('back')} onClick={close} /> : <IconButton ref={first} icon="close" label={t('close')} onClick={close} />}
        <h2>{t(isGroup ? 'info' : 'profile')}</h2>
        {leads && <IconButton icon="write" label={t('rename')} onClick={() => setRenaming(true)} />}
      </header>
      <div className="info-body">
        {v?.kind === 'group' ? <GroupHead id={v.id} title={v.title || t('group')} /> : <PersonHead user={other} conv={v?.id ?? ''} />}
        {!isGroup && <Details user={other} />}
        {person !== '' && <PersonTools user={person} />}
        {!isGroup && <ContactPart user={other} />}
        {v && (
          <section className="info-part">
            <NotifySwitch conversation={v} />
            <Switch icon="archive" on={v.personal.archived} onChange={(on) => void client.archive(v.id, on).catch(said)}>{t('archived')}</Switch>
          </section>
        )}
        {v?.kind !== 'group' && <BlockSwitch user={other} />}
        {v?.kind === 'group' && <GroupInfo conversation={v} />}
      </div>
      {renaming && v && <RenameDialog conv={v.id} title={v.title} onClose={() => setRenaming(false)} />}
    </aside>
  )
}

function NotifySwitch({ conversation: v }: { readonly conversation: Conversation }): ReactElement {
  const translation = useLaterTranslation()
  const { t } = translation
  const client = useClient()
  const toast = useToast()
  const muted = useMuted(v)
  const place = useRef<HTMLDivElement>(null)
  const [mute, setMute] = useState<MenuPlace | undefined>(undefined)
  const changed = (on: boolean): void => {
    if (on) return void client.mute(v.id, 0).catch((why: unknown) => toast(thrownText(why, t)))
    const { right, bottom } = place.current?.getBoundingClientRect() ?? new DOMRect()
    setMute({ x: right - 8, y: bottom, isEnd: true })
  }
  return (
    <div ref={place}>
      <Switch icon="bell" on={!muted} onChange={changed}>{t('notifications')}{muted && <span className="row-note note-below">{mutedText(v, translation)}</span>}</Switch>
      {mute && <MuteTimes conv={v.id} at={mute} onClose={() => setMute(undefined)} />}
    </div>
  )
}

function PersonHead({ user, conv }: { readonly user: string; readonly conv: string }): ReactElement {
  const { t } = useLaterTranslation()
  const name = useName(user)
  const profile = useProfile(user)
  const own = profile?.displayName || user
  const handle = profile?.handle || user
  const presence = usePresence(user)
  return (
    <div className="info-head">
      <Avatar id={user} name={name} size={112} />
      <h3 dir="auto">{name}</h3>
      {own !== name && <p dir="auto">{own}</p>}
      <p className="quiet">@{handle}</p>
      {presence?.online ? <p className="online">{t('online')}</p> : presence && presence.lastMs > 0 && <p className="quiet"><LastSeen ms={presence.lastMs} peer={user} conv={conv} /></p>}
    </div>
  )
}

/** What a user says about themselves, and the fields of the application. */
function Details({ user }: { readonly user: string }): ReactElement | null {
  const { t } = useLaterTranslation()
  const profile = useProfile(user)
  if (!profile) return null
  const { about, handle, fields } = profile
  const all = [...about ? [[t('about'), about]] : [], ...handle && handle !== user ? [[t('handle'), user]] : [], ...Object.entries(fields).sort(([a], [b]) => a < b ? -1 : 1)]
  if (all.length === 0) return null
  return <section className="info-part"><dl className="details">{all.map(([name, text]) => <div key={name}><dt dir="auto">{name}</dt><dd dir="auto">{text}</dd></div>)}</dl></section>
}

/** What the person can do with a user whose profile is shown beside another conversation. */
function PersonTools({ user }: { readonly user: string }): ReactElement | null {
  const { t } = useLaterTranslation()
  const me = useSession()
  const go = useGo()
  if (user === me.user && !me.logOut) return null // the page around the chat has the settings
  return (
    <section className="info-part">
      {user === me.user
        ? <RowButton icon="write" onClick={() => go({ account: user, panel: 'settings' })}>{t('editProfile')}</RowButton>
        : <RowButton icon="write" onClick={() => go({ account: me.user, user })}>{t('writeTo')}</RowButton>}
    </section>
  )
}

function GroupHead({ id, title }: { readonly id: string; readonly title: string }): ReactElement {
  return <div className="info-head"><Avatar id={id} name={title} size={112} group /><h3 dir="auto">{title}</h3></div>
}

function BlockSwitch({ user }: { readonly user: string }): ReactElement | null {
  const { t } = useLaterTranslation()
  const client = useClient()
  const me = useSession().user
  const toast = useToast()
  const blocked = useOfClient((c) => c.blocked()).includes(user)
  const [reporting, setReporting] = useState(false)
  if (user === me) return null
  return (
    <section className="info-part">
      <RowButton icon="ban" danger={!blocked} onClick={() => void client.block(user, !blocked).catch((why: unknown) => toast(thrownText(why, t)))}>{t(blocked ? 'unblock' : 'block')}</RowButton>
      <p className="info-note">{t(blocked ? 'blockedNote' : 'blockNote')}</p>
      <RowButton icon="flag" danger onClick={() => setReporting(true)}>{t('report')}</RowButton>
      {reporting && <ReportDialog user={user} onClose={() => setReporting(false)} />}
    </section>
  )
}

function RenameDialog({ conv, title, onClose }: { readonly conv: string; readonly title: string; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const [text, setText] = useState(title)
  const [error, setError] = useState<string | undefined>(undefined)
  return (
    <Dialog title={t('rename')} closeLabel={t('close')} onClose={onClose} foot={<Button look="primary" type="submit" form="rename" disabled={text.trim() === ''}>{t('save')}</Button>}>
      <form id="rename" className="dialog-body" onSubmit={(e) => {
        e.preventDefault()
        client.renameGroup(conv, text.trim()).then(onClose, (why: unknown) => setError(thrownText(why, t)))
      }}>
        <Field label={t('groupTitle')} value={text} maxLength={100} error={error} onChange={(e) => setText(e.target.value)} />
      </form>
    </Dialog>
  )
}
