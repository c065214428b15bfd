import type { Conversation, Message, UserReactions } from '@petrel-im/sdk'
import { useClient } from '@petrel-im/sdk/react'
import { type ReactElement, useEffect, useState } from 'react'
import { Avatar, Dialog } from '../../ui/index.js'
import { useName } from '../account/names.js'
import { useSession } from '../account/SessionContext.js'
import { useTranslation } from '../i18n/index.js'

/** Who has read a message of a group, or who reacted to it. */
export function WhoDialog({ kind, message: m, conversation: v, onClose }: { readonly kind: 'read' | 'reacted'; readonly message: Message; readonly conversation: Conversation; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const { user } = useSession()
  const [reacted, setReacted] = useState<readonly UserReactions[]>([])
  useEffect(() => {
    if (kind === 'read') client.loadReceipts(v.id).catch(() => {}) // those that are known are shown
    else client.whoReacted(v.id, m.seq).then(setReacted, () => {})
  }, [client, kind, v.id, m.seq])
  const receipts = [...v.receipts.values()].filter((r) => r.user !== user)
  const read = receipts.filter((r) => r.read >= m.seq)
  const delivered = receipts.filter((r) => r.read < m.seq && r.delivered >= m.seq)
  return (
    <Dialog title={t(kind === 'read' ? 'whoRead' : 'whoReacted')} closeLabel={t('close')} onClose={onClose}>
      <div className="dialog-body dialog-list" tabIndex={0}>
        {kind === 'reacted' && <ul>{reacted.map((r) => <UserLine key={r.user} user={r.user} note={r.emojis.join(' ')} />)}</ul>}
        {kind === 'read' && read.length + delivered.length === 0 && <p className="quiet row">{t('nobodyYet')}</p>}
        {kind === 'read' && <ul>{read.map((r) => <UserLine key={r.user} user={r.user} note={t('fateRead')} />)}{delivered.map((r) => <UserLine key={r.user} user={r.user} note={t('fateDelivered')} />)}</ul>}
      </div>
    </Dialog>
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
