import type { ReactElement } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { enterSends } from '../../ui/index.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import type { LaterKey } from '../i18n/laterTexts.js'

const keys: readonly (readonly [readonly string[], LaterKey])[] = [
  [['Ctrl K', '/'], 'keySearch'], [['Alt ↑', 'Alt ↓'], 'keyNeighbour'], [['Enter'], 'keySend'], [['Shift Enter'], 'keyLine'], [['↑'], 'keyEdit'], [['Esc'], 'keyEscape'],
  [['Tab'], 'keyTab'], [['↑ ↓', 'Enter'], 'keyMessages'], [['Space', 'Shift ↑ ↓'], 'keySelect'], [['→', 'Esc'], 'keyInside'], [['Page Up', 'Page Down'], 'keyMonth'], [['?'], 'keyHelp'],
]

/** The keys on devices where Enter begins a new line. */
const others: Readonly<Partial<Record<LaterKey, readonly string[]>>> = { keySend: ['Ctrl Enter'], keyLine: ['Enter'] }

/** The list of keyboard shortcuts. */
export function KeysDialog({ onClose }: { readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  return (
    <Dialog title={t('keys')} closeLabel={t('close')} onClose={onClose}>
      <dl className="dialog-body keys">{keys.map(([pressed, what]) => <div key={what}><dt>{(enterSends() ? pressed : others[what] ?? pressed).map((key) => <kbd key={key}>{key}</kbd>)}</dt><dd>{t(what)}</dd></div>)}</dl>
    </Dialog>
  )
}
