import type { Message } from '@petrel-im/sdk'
import type { ReactElement } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Emojis } from '../emoji/Emojis.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { useChatActions } from './actions.js'

/** The choice of any emoji for a reaction. Choosing a present reaction removes it. */
export function ReactDialog({ message: m, onClose }: { readonly message: Message; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const { react } = useChatActions()
  const picked = (chosen: string): void => {
    const sign = chosen.replace(/(\p{Emoji_Presentation})\ufe0f/gu, '$1') // as in the menu: 👍 with a variation selector would be another reaction
    react(m, sign, m.reactions.some((r) => r.emoji === sign && r.mine))
    onClose()
  }
  return <Dialog sheet title={t('react')} closeLabel={t('close')} onClose={onClose}><Emojis onPick={picked} onClose={onClose} /></Dialog>
}
