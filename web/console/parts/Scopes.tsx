import type { ReactElement } from 'react'
import { named, useTranslation } from '../i18n/index.js'

const scopes = ['admin', 'users', 'tokens', 'conversations', 'messages', 'server', 'backup'] as const

/** The choice of scopes. The scope admin includes the others. */
export function Scopes({ value, onChange }: { readonly value: readonly string[]; readonly onChange: (scopes: readonly string[]) => void }): ReactElement {
  const tr = useTranslation()
  const all = value.includes('admin')
  return (
    <fieldset className="scopes">
      <legend>{tr.t('scopes')}</legend>
      {scopes.map((s) => (
        <label key={s}>
          <input type="checkbox" checked={all || value.includes(s)} disabled={all && s !== 'admin'} onChange={(e) => onChange(e.target.checked ? s === 'admin' ? ['admin'] : [...value, s] : value.filter((v) => v !== s))} />
          <span><code>{s}</code> <span className="quiet">{named(tr, 'scope', s)}</span></span>
        </label>
      ))}
    </fieldset>
  )
}
