import type { Message } from '@petrel-im/sdk'
import { useClient, useConversations } from '@petrel-im/sdk/react'
import { type ReactElement, useState } from 'react'
import { Dialog, SearchField, useToast } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { useTranslation } from '../i18n/index.js'
import { useGo } from '../environment.js'
import { chatRoute, inOrder, matches } from '../sidebar/list.js'
import { type Choosable, ChatLine } from '../sidebar/ChatLine.js'
import { thrownText } from './failure.js'

/** Where a message is copied to. */
export function ForwardDialog({ message: m, onClose }: { readonly message: Message; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const { user, names } = useSession()
  const go = useGo()
  const toast = useToast()
  const [wanted, setWanted] = useState('')
  const all = inOrder(client, useConversations()).filter((v) => !v.left && (v.kind === 'direct' || v.kind === 'group'))
  const notes: Choosable = { id: '', kind: 'direct', peer: user, title: t('notes') }
  const chats = [...all.some((v) => v.peer === user) ? [] : [notes], ...all].filter((v) => matches(v, wanted, names))
  return (
    <Dialog sheet title={t('forwardTo')} closeLabel={t('close')} onClose={onClose}>
      <div className="dialog-search"><SearchField label={t('search')} clearLabel={t('clear')} value={wanted} onValue={setWanted} /></div>
      <div className="dialog-body dialog-list dialog-tall">
        {chats.map((v) => (
          <ChatLine key={v.id} conversation={v} onSelect={() => {
            onClose()
            client.send({ ...(v.kind === 'direct' ? { user: v.peer } : { conv: v.id }), forward: { conv: m.conv, seq: m.seq } }).then(() => go(chatRoute(user, v)), (why: unknown) => toast(thrownText(why, t)))
          }} />
        ))}
        {chats.length === 0 && <p className="quiet row">{t('nothingFound')}</p>}
      </div>
    </Dialog>
  )
}
