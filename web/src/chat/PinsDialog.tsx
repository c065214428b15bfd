import type { Message } from '@petrel-im/sdk'
import type { ReactElement } from 'react'
import { useName } from '../account/useName.js'
import { Dialog } from '../../ui/Dialog.js'
import { RowButton } from '../../ui/index.js'
import { fullDate } from '../i18n/dates.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { usePlain } from './plainText.js'
import { usePins } from './PinBar.js'

export function PinsDialog({ conv, onJump, onClose }: { readonly conv: string; readonly onJump: (seq: number) => void; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const pins = usePins(conv)
  return (
    <Dialog title={t('pinnedMessages')} closeLabel={t('close')} onClose={onClose}>
      <div className="dialog-body dialog-list">
        {pins.length === 0 && <p className="quiet row">{t('noPins')}</p>}
        {pins.map(({ message: m }) => <PinLine key={m.seq} message={m} onJump={onJump} />)}
      </div>
    </Dialog>
  )
}

function PinLine({ message: m, onJump }: { readonly message: Pick<Message, 'from' | 'seq' | 'text' | 'timeMs' | 'rel'>; readonly onJump: (seq: number) => void }): ReactElement {
  const translation = useLaterTranslation()
  const name = useName(m.from)
  const text = usePlain(m.text, m.rel)
  return <RowButton icon="pin" note={`${name} · ${fullDate(m.timeMs, translation)}`} onClick={() => onJump(m.seq)}>{text || translation.t('otherKind')}</RowButton>
}
