import { type ReactElement, useState } from 'react'
import { Button } from '../../ui/index.js'
import { number } from '../formats.js'
import { useTranslation } from '../i18n/index.js'

const foldedSigns = 600 // characters that are shown of a folded text
const longSigns = 2 * foldedSigns // a shorter text is not folded

/** A text as it was written. A long one is cut until the operator asks for all of it. */
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

/** Returns the first characters, without half of a surrogate pair. */
function beginning(text: string): string {
  const cut = text.slice(0, foldedSigns)
  return /[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut
}
