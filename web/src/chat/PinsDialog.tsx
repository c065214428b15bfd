import type { ReactElement } from 'react'
import { Dialog, RowButton } from '../../ui/index.js'
import { fullDate } from '../i18n/dates.js'
import { useTranslation } from '../i18n/index.js'
import { plainText } from './marks.js'
import { usePins } from './PinBar.js'

export function PinsDialog({ conv, onJump, onClose }: { readonly conv: string; readonly onJump: (seq: number) => void; readonly onClose: () => void }): ReactElement {
  const translation = useTranslation()
  const { t } = translation
  const pins = usePins(conv)
  return (
    <Dialog title={t('pinnedMessages')} closeLabel={t('close')} onClose={onClose}>
      <div className="dialog-body dialog-list">
        {pins.length === 0 && <p className="quiet row">{t('noPins')}</p>}
        {pins.map(({ message: m }) => <RowButton key={m.seq} icon="pin" note={`${m.from} · ${fullDate(m.timeMs, translation)}`} onClick={() => onJump(m.seq)}>{plainText(m.text ?? '') || t('otherKind')}</RowButton>)}
      </div>
    </Dialog>
  )
}
