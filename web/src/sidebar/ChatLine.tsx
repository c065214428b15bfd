import type { Conversation } from '@petrel-im/sdk'
import type { ReactElement } from 'react'
import { Avatar } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { useTranslation } from '../i18n/index.js'

/** Returns the name of a conversation. */
export function useChatName(v: Pick<Conversation, 'kind' | 'peer' | 'title'>): string {
  const { t } = useTranslation()
  const { user } = useSession()
  const name = useName(v.peer)
  return v.kind === 'direct' ? v.peer === user ? t('notes') : name : v.title || t('group')
}

/** The fields of a conversation in a list to choose from. A direct one need not exist yet. */
export type Choosable = Pick<Conversation, 'id' | 'kind' | 'peer' | 'title'>

/** A row of a list of conversations to choose from. */
export function ChatLine({ conversation: v, onSelect }: { readonly conversation: Choosable; readonly onSelect: () => void }): ReactElement {
  const name = useChatName(v)
  const { user } = useSession()
  return (
    <button type="button" className="row" onClick={onSelect}>
      <Avatar id={v.kind === 'group' ? v.id : v.peer} name={name} icon={v.peer === user ? 'bookmark' : undefined} group={v.kind === 'group'} size={40} />
      <span className="row-text cut" dir="auto">{name}</span>
    </button>
  )
}
