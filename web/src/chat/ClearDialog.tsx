import type { Conversation } from '@petrel-im/sdk'
import type { ReactElement } from 'react'
import { useTranslation } from '../i18n/index.js'
import { ConfirmDialog } from '../info/ConfirmDialog.js'
import { usePutAway } from './away.js'

/** Asks before all messages so far go out of the person's sight. */
export function ClearDialog({ conversation, onClose }: { readonly conversation: Conversation; readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const { clear } = usePutAway()
  return <ConfirmDialog text={t('clearQuestion')} yes="clearChat" act={() => clear(conversation)} onClose={onClose} />
}
