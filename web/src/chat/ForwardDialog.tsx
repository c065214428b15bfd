import type { Message } from '@petrel-im/sdk'
import { useClient, useConversations } from '@petrel-im/sdk/react'
import { type ReactElement, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { SearchField, useToast } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { useGo } from '../environment.js'
import { chatRoute, inOrder, matches } from '../sidebar/chatList.js'
import { type Choosable, ChatLine } from '../sidebar/ChatLine.js'
import { usePeople } from '../sidebar/usePeople.js'
import { thrownText } from './failureText.js'

interface ForwardProps {
  readonly messages: readonly Message[] // in the order in which they arrive
  readonly onClose: () => void
  readonly onSent?: () => void
}

/** Asks for the conversations to which messages are copied. */
export function ForwardDialog({ messages, onClose, onSent }: ForwardProps): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const session = useSession()
  const { user } = session
  const go = useGo()
  const toast = useToast()
  const [wanted, setWanted] = useState('')
  const all = inOrder(client, useConversations()).filter((v) => !v.left && (v.kind === 'direct' || v.kind === 'group'))
  const notes: Choosable = { id: '', kind: 'direct', peer: user, title: t('notes') }
  const people = usePeople(true).filter((u) => !all.some((v) => v.peer === u)).map((u): Choosable => ({ id: `@${u}`, kind: 'direct', peer: u, title: '' })) // members of groups
  const chats = [...all.some((v) => v.peer === user) ? [] : [notes], ...all, ...people].filter((v) => matches(v, wanted, session))
  const send = async (v: Choosable): Promise<void> => {
    for (const m of messages) await client.send({ ...(v.kind === 'direct' ? { user: v.peer } : { conv: v.id }), forward: { conv: m.conv, seq: m.seq } }) // one after the other, so the outbox keeps their order
    onSent?.()
    go(chatRoute(user, v))
  }
  return (
    <Dialog sheet title={t('forwardTo')} closeLabel={t('close')} onClose={onClose}>
      <div className="dialog-search"><SearchField label={t('search')} clearLabel={t('clear')} value={wanted} onValue={setWanted} /></div>
      <div className="dialog-body dialog-list dialog-tall">
        {chats.map((v) => (
          <ChatLine key={v.id} conversation={v} onSelect={() => {
            onClose()
            void send(v).catch((why: unknown) => toast(thrownText(why, t)))
          }} />
        ))}
        {chats.length === 0 && <p className="quiet row">{t('nothingFound')}</p>}
      </div>
    </Dialog>
  )
}
