import { type ReactElement, useState } from 'react'
import { Button } from '../../ui/index.js'
import { number } from '../formats.js'
import { useTranslation } from '../i18n/index.js'

const foldedSigns = 600 // of a text that is longer
const longSigns = 2 * foldedSigns // a text that is a little longer is shown whole

/** A text as it is written. Of a long one the beginning is shown until all of it is asked for. */
export function Folded({ text }: { readonly text: string }): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [open, setOpen] = useState(false)
  if (text.length <= longSigns) return <span className="body">{text}</span>
  return (
    <>
      <span className="body">{open ? text : `${beginning(text)}…`}</span>
      <Button small onClick={() => setOpen(!open)} aria-expanded={open}>{open ? t('showLess') : t('showAll', { n: number(text.length, tr) })}</Button>
    </>
  )
}

/** The first signs, without half of one. */
function beginning(text: string): string {
  const cut = text.slice(0, foldedSigns)
  return /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut
}
