import type { ReactElement } from 'react'
import { Calendar } from '../../ui/Calendar.js'
import { Dialog } from '../../ui/Dialog.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'

/** Asks for the day to go to. */
export function DateDialog({ ms, onChoose, onClose }: { readonly ms: number; readonly onChoose: (ms: number) => void; readonly onClose: () => void }): ReactElement {
  const { t, tag } = useLaterTranslation()
  return (
    <Dialog sheet title={t('jumpToDate')} closeLabel={t('close')} onClose={onClose}>
      <div className="dialog-body">
        <Calendar value={new Date(ms)} last={new Date()} tag={tag} previousLabel={t('previousMonth')} nextLabel={t('nextMonth')} onChoose={(day) => onChoose(day.getTime())} />
      </div>
    </Dialog>
  )
}
