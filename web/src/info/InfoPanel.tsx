import type { Conversation } from '@petrel-im/sdk'
import { useClient, usePresence } from '@petrel-im/sdk/react'
import { type KeyboardEvent, type ReactElement, useRef, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Avatar, Button, Field, IconButton, isComposing, type MenuPlace, RowButton, Switch, useToast } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failureText.js'
import { mutedText, MuteMenu, useMuted } from '../chat/MuteMenu.js'
import { useTranslation } from '../i18n/index.js'
import { useGo, useRoute } from '../environment.js'
import { useChat, useOfClient } from '../clientSnapshot.js'
import { GroupInfo } from './GroupInfo.js'
import './info.css'

/** The panel with the details of a conversation and its settings. */
export function InfoPanel({ conv, peer }: { readonly conv: string; readonly peer: string }): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const route = useRoute()
  const go = useGo()
  const toast = useToast()
  const v = useChat(conv, peer)
  const [renaming, setRenaming] = useState(false)
  const said = (why: unknown): void => toast(thrownText(why, t))
  const close = (): void => go({ ...route, info: false }, true)
  const closed = (e: KeyboardEvent): void => {
    if (e.key !== 'Escape' || isComposing(e) || e.defaultPrevented || (e.target as Element).closest('dialog, [role="menu"]')) return
    e.preventDefault()
    close()
  }
  const leads = v?.kind === 'group' && !v.left && (v.role === 'owner' || v.role === 'admin')
  return (
    <aside className="info" aria-label={t('info')} onKeyDown={closed}>
      <header className="info-header">
        <IconButton icon="close" label={t('close')} onClick={close} />
        <h2>{t('info')}</h2>
        {leads && <IconButton icon="write" label={t('rename')} onClick={() => setRenaming(true)} />}
      </header>
      <div className="info-body">
        {v?.kind === 'group' ? <GroupHead id={v.id} title={v.title || t('group')} /> : <PersonHead user={v?.peer || peer} />}
        {v && (
          <section className="info-part">
            <NotifySwitch conversation={v} />
            <Switch icon="archive" on={v.personal.archived} onChange={(on) => void client.archive(v.id, on).catch(said)}>{t('archived')}</Switch>
          </section>
        )}
        {v?.kind !== 'group' && <BlockSwitch user={v?.peer || peer} />}
        {v?.kind === 'group' && <GroupInfo conversation={v} />}
      </div>
      {renaming && v && <RenameDialog conv={v.id} title={v.title} onClose={() => setRenaming(false)} />}
    </aside>
  )
}

function NotifySwitch({ conversation: v }: { readonly conversation: Conversation }): ReactElement {
  const translation = useTranslation()
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
      {mute && <MuteMenu conv={v.id} at={mute} onClose={() => setMute(undefined)} />}
    </div>
  )
}

function PersonHead({ user }: { readonly user: string }): ReactElement {
  const { t } = useTranslation()
  const name = useName(user)
  const presence = usePresence(user)
  return (
    <div className="info-head">
      <Avatar id={user} name={name} size={112} />
      <h3 dir="auto">{name}</h3>
      <p className="quiet">@{user}{presence?.online && <> · <span className="online">{t('online')}</span></>}</p>
    </div>
  )
}

function GroupHead({ id, title }: { readonly id: string; readonly title: string }): ReactElement {
  return <div className="info-head"><Avatar id={id} name={title} size={112} group /><h3 dir="auto">{title}</h3></div>
}

function BlockSwitch({ user }: { readonly user: string }): ReactElement | null {
  const { t } = useTranslation()
  const client = useClient()
  const me = useSession().user
  const toast = useToast()
  const blocked = useOfClient((c) => c.blocked()).includes(user)
  if (user === me) return null
  return (
    <section className="info-part">
      <RowButton icon="ban" danger={!blocked} onClick={() => void client.block(user, !blocked).catch((why: unknown) => toast(thrownText(why, t)))}>{t(blocked ? 'unblock' : 'block')}</RowButton>
      <p className="info-note">{t(blocked ? 'blockedNote' : 'blockNote')}</p>
    </section>
  )
}

function RenameDialog({ conv, title, onClose }: { readonly conv: string; readonly title: string; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
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
