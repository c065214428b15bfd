import { type ReactElement, useRef, useState } from 'react'
import { isComposing } from '../../ui/index.js'
import { type AnyKey, useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { type Tone, toned, tones } from './tone.js'

const names: readonly AnyKey[] = ['toneNone', 'toneLight', 'toneMediumLight', 'toneMedium', 'toneMediumDark', 'toneDark']
const hand = '✋'

/** The choice of the skin tone of emojis with people and hands. */
export function ToneChoice({ tone, onChoose }: { readonly tone: Tone; readonly onChoose: (tone: Tone) => void }): ReactElement {
  const { t } = useLaterTranslation()
  const [open, setOpen] = useState(false)
  const button = useRef<HTMLButtonElement>(null)
  const close = (): void => {
    setOpen(false)
    button.current?.focus()
  }
  return (
    <>
      <button type="button" ref={button} className="tone" aria-label={t('skinTone')} title={t('skinTone')} aria-expanded={open} onClick={() => setOpen(!open)}>{toned(hand, tone)}</button>
      {open && (
        <div className="tones" role="group" aria-label={t('skinTone')} onKeyDown={(e) => {
          if (e.key !== 'Escape' || isComposing(e)) return
          e.preventDefault()
          e.stopPropagation()
          close()
        }}>
          {tones.map((to) => <button type="button" key={to} className="tone" aria-label={t(names[to] ?? 'skinTone')} aria-pressed={to === tone} autoFocus={to === tone} onClick={() => { onChoose(to); close() }}>{toned(hand, to)}</button>)}
        </div>
      )}
    </>
  )
}
