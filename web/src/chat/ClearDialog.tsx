import type { Conversation } from '@petrel-im/sdk'
import type { ReactElement } from 'react'
import { useTranslation } from '../i18n/index.js'
import { Later } from '../Later.js'
import { usePutAway } from './hiddenMessages.js'

const load = () => import('../parts.js').then((m) => m.ConfirmDialog)

/** Asks before all messages so far are hidden. */
export function ClearDialog({ conversation, onClose }: { readonly conversation: Conversation; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const { clear } = usePutAway()
  return <Later load={load} onFailed={onClose} of={{ text: t('clearQuestion'), yes: 'clearChat', act: () => clear(conversation), onClose }} />
}
