import { type ReactElement, useEffect, useState } from 'react'
import { SearchField } from '../../ui/index.js'
import { narrow, useAddress } from '../address.js'
import { useTranslation } from '../i18n/index.js'

const settleMs = 300 // wait after the last key

/**
 * A field that narrows the table below it. Its value is in the address. A change goes to the first page of the table.
 */
export function Filter({ name, label }: { readonly name: string; readonly label: string }): ReactElement {
  const { t } = useTranslation()
  const { query } = useAddress()
  const kept = query[name] ?? ''
  const [text, setText] = useState(kept)
  const [before, setBefore] = useState(kept)
  if (kept !== before) { // the address was changed by Back or a link
    setBefore(kept)
    setText(kept)
  }
  useEffect(() => {
    if (text === kept) return undefined
    const timer = setTimeout(() => narrow({ [name]: text.trim(), from: '' }, true), settleMs)
    return () => clearTimeout(timer)
  }, [name, text, kept])
  return <SearchField label={label} clearLabel={t('clear')} value={text} onValue={setText} onKeyDown={(e) => { if (e.key === 'Enter') narrow({ [name]: text.trim(), from: '' }, true) }} />
}

/** A choice of one of a few values, kept in the address. */
export function Select({ name, label, of }: { readonly name: string; readonly label: string; readonly of: readonly (readonly [string, string])[] }): ReactElement {
  const { query } = useAddress()
  return <label className="select"><span className="unseen">{label}</span><select title={label} value={query[name] ?? ''} onChange={(e) => narrow({ [name]: e.target.value, from: '' }, true)}>{of.map(([value, text]) => <option key={value} value={value}>{text}</option>)}</select></label>
}
