import type { MemberRef } from '@petrel-im/sdk'
import { type ReactElement, useMemo, useState } from 'react'
import { Avatar, Icon, type MenuPlace, RowButton, SearchField } from '../../ui/index.js'
import { isNamed, useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { type AnyKey, useLaterTranslation } from '../i18n/useLaterTranslation.js'

const mostAtOnce = 100 // members that are drawn until the person asks for more: a group may have 10,000
const mostWithoutSearch = 20

/** The members of a group: the owner first, then the admins. */
export function MemberList({ members, onSelect }: { readonly members: readonly MemberRef[]; readonly onSelect: (m: MemberRef, at: MenuPlace) => void }): ReactElement {
  const { t } = useLaterTranslation()
  const session = useSession()
  const [wanted, setWanted] = useState('')
  const [most, setMost] = useState(mostAtOnce)
  const sorted = useMemo(() => [...members].sort((a, b) => rank(a) - rank(b)), [members])
  const searching = wanted.trim() !== ''
  const found = searching ? sorted.filter(({ user }) => isNamed(user, wanted, session)) : sorted
  return (
    <>
      {members.length > mostWithoutSearch && <div className="member-search"><SearchField label={t('searchMembers')} clearLabel={t('clear')} value={wanted} onValue={setWanted} /></div>}
      {searching && found.length === 0 && <p className="info-note" role="status">{t('nothingFound')}</p>}
      <ul>{found.slice(0, most).map((m) => <li key={m.user}><MemberLine member={m} me={session.user} onSelect={(at) => onSelect(m, at)} /></li>)}</ul>
      {found.length > most && <RowButton icon="down" onClick={() => setMost(most + mostAtOnce)}>{t('showMore', { n: found.length - most })}</RowButton>}
    </>
  )
}

/** Returns the rank of a role in the list. */
function rank({ role }: MemberRef): number {
  return role === 'owner' ? 0 : role === 'admin' ? 1 : 2
}

const roleNames: Readonly<Record<string, AnyKey>> = { owner: 'owner', admin: 'admin' }

function MemberLine({ member: m, me, onSelect }: { readonly member: MemberRef; readonly me: string; readonly onSelect: (at: MenuPlace) => void }): ReactElement {
  const { t } = useLaterTranslation()
  const name = useName(m.user)
  const role = roleNames[m.role]
  const inner = (
    <>
      <Avatar id={m.user} name={name} size={40} />
      <span className="row-text"><span className="cut info-name" dir="auto">{name}</span><span className="row-note cut">@{m.user}</span></span>
      {m.role === 'owner' && <Icon name="crown" small />}
      {role && <span className="quiet">{t(role)}</span>}
    </>
  )
  if (m.user === me) return <div className="row">{inner}</div>
  return <button type="button" className="row" aria-haspopup="menu" onClick={(e) => onSelect({ x: e.clientX || e.currentTarget.getBoundingClientRect().left + 60, y: e.clientY || e.currentTarget.getBoundingClientRect().bottom })}>{inner}</button>
}
