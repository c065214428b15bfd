import type { ReactElement } from 'react'
import { useName } from '../account/names.js'
import { useTranslation } from '../i18n/index.js'

/** Who is writing. */
export function Typing({ users, many }: { readonly users: readonly string[]; readonly many: boolean }): ReactElement {
  const { t } = useTranslation()
  const name = useName(users[0] ?? '')
  return (
    <span className="typing">
      {!many ? t('typing') : users.length === 1 ? t('typingOne', { name }) : t('typingMany', { n: users.length })}
      <span className="dots" aria-hidden="true"><i /><i /><i /></span>
    </span>
  )
}
