import type { ReactElement } from 'react'
import { useName } from '../account/useName.js'
import { useTranslation } from '../i18n/index.js'

/** Says that users are writing. In a group it has the name of the user, or the number of several. */
export function Typing({ users, many, conv }: { readonly users: readonly string[]; readonly many: boolean; readonly conv?: string }): ReactElement {
  const { t } = useTranslation()
  const name = useName(users[0] ?? '', conv)
  const text = !many ? t('typing') : users.length === 1 ? t('typingOne', { name }) : t('typingMany', { n: users.length })
  const at = many && users.length === 1 ? text.indexOf(name) : -1 // if the line is too long, only the name is cut
  return (
    <span className="typing">
      {at < 0 ? text : <>{text.slice(0, at)}<bdi className="cut">{name}</bdi>{text.slice(at + name.length)}</>}
      <span className="dots" aria-hidden="true"><i /><i /><i /></span>
    </span>
  )
}
