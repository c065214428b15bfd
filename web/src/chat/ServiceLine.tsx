import type { Message } from '@petrel-im/sdk'
import { memo, type ReactElement, useEffect } from 'react'
import { nameOf, useNames } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { type Translation, useTranslation } from '../i18n/index.js'

/** An event of the group itself. */
export const ServiceLine = memo(function ServiceLine({ message }: { readonly message: Message }): ReactElement {
  return <div className="service"><span dir="auto"><ServiceText message={message} /></span></div>
})

export function ServiceText({ message: m }: { readonly message: Message }): string {
  const { t, tag } = useTranslation()
  const { profiles, user } = useSession()
  useEffect(() => {
    profiles.want(usersOf(m), { conv: m.conv })
  }, [m, profiles])
  return useNames((names) => serviceText(m, (u, you) => u === user ? t(you) : nameOf(names, u), t, tag))
}

function usersOf({ from, members }: Message): readonly string[] {
  return [from, ...(members?.added.map((r) => r.user) ?? []), ...(members?.removed ?? []), ...(members?.left ?? [])].slice(0, 5)
}

/**
 * Returns the text of an event. `you` names the word for the person themselves, at the beginning of a sentence or
 * inside it.
 */
function serviceText(m: Message, name: (user: string, you: 'you' | 'youInside') => string, t: Translation['t'], tag: string): string {
  const by = m.from ? name(m.from, 'you') : t('operator')
  const list = (users: readonly string[], you: 'you' | 'youInside' = 'youInside'): string => new Intl.ListFormat(tag).format(users.slice(0, 5).map((u) => name(u, you)).concat(users.length > 5 ? ['…'] : []))
  const c = m.members
  if (m.lost) return t('lost')
  if (m.group) return t('didRename', { name: by, title: m.group.title })
  if (!c) return ''
  if (c.dissolved) return t('didDissolve', { name: by })
  if (m.seq === 1) return t('didCreate', { name: by })
  const parts = [
    c.left.length > 0 && t('didLeave', { name: list(c.left, 'you') }),
    c.removed.length > 0 && t('didRemove', { name: by, who: list(c.removed) }),
    c.added.length > 0 && t('didAdd', { name: by, who: list(c.added.map((r) => r.user)) }),
    ...c.roles.map((r) => t(r.role === 'owner' ? 'didOwner' : r.role === 'admin' ? 'didAdmin' : 'didMember', { name: by, who: name(r.user, 'youInside') })),
  ]
  return parts.filter(Boolean).join(' ')
}
