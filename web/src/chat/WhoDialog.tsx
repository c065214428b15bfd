import type { Conversation, Message, UserReactions } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { type ReactElement, useEffect, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Avatar } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { useMembers } from './useMembers.js'

/** The dialog with the users who have read a message of a group, or reacted to it. */
export function WhoDialog({ kind, message: m, conversation: v, onClose }: { readonly kind: 'read' | 'reacted'; readonly message: Message; readonly conversation: Conversation; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const [reacted, setReacted] = useState<readonly UserReactions[]>([])
  useEffect(() => {
    if (kind === 'read') client.loadReceipts(v.id).catch(() => {}) // the known ones are shown
    else client.whoReacted(v.id, m.seq).then(setReacted, () => {})
  }, [client, kind, v.id, m.seq])
  return (
    <Dialog title={t(kind === 'read' ? 'whoRead' : 'whoReacted')} closeLabel={t('close')} onClose={onClose}>
      <div className="dialog-body dialog-list" tabIndex={0}>
        {kind === 'reacted' ? <ul>{reacted.map((r) => <UserLine key={r.user} user={r.user} note={r.emojis.join(' ')} />)}</ul> : <Readers message={m} conversation={v} />}
      </div>
    </Dialog>
  )
}

const mostUnread = 100 // the most members without a read receipt that are listed; of more only the number is shown

/** The members who have read a message, and those who have not. */
function Readers({ message: m, conversation: v }: { readonly message: Message; readonly conversation: Conversation }): ReactElement {
  const { t } = useLaterTranslation()
  const { user } = useSession()
  const receipts = [...v.receipts.values()].filter((r) => r.user !== user)
  const read = receipts.filter((r) => r.read >= m.seq)
  const delivered = receipts.filter((r) => r.read < m.seq && r.delivered >= m.seq)
  const got = new Set([user, ...read.map((r) => r.user), ...delivered.map((r) => r.user)])
  const others = useMembers(v).filter((one) => !got.has(one.user))
  const unread = delivered.length + others.length
  return (
    <>
      {read.length > 0 && <><h3 className="sidebar-part">{t('fateRead')} · {read.length}</h3><ul>{read.map((r) => <UserLine key={r.user} user={r.user} note="" />)}</ul></>}
      {unread > 0 && <h3 className="sidebar-part">{t('notRead')} · {unread}</h3>}
      {unread > 0 && unread <= mostUnread && <ul>{delivered.map((r) => <UserLine key={r.user} user={r.user} note={t('fateDelivered')} />)}{others.map((one) => <UserLine key={one.user} user={one.user} note="" />)}</ul>}
    </>
  )
}

export function UserLine({ user, note }: { readonly user: string; readonly note: string }): ReactElement {
  const name = useName(user)
  return (
    <li className="row">
      <Avatar id={user} name={name} size={36} />
      <span className="row-text cut" dir="auto">{name}</span>
      <span className="quiet">{note}</span>
    </li>
  )
}
