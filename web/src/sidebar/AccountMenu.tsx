import { type ReactElement, useCallback, useEffect, useState } from 'react'
import { Avatar, Badge, IconButton, Menu, MenuItem, type MenuPlace } from '../../ui/index.js'
import { useAccounts } from '../account/accounts.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { useTranslation } from '../i18n/index.js'
import { Later } from '../Later.js'
import { go } from '../route.js'
import type { Beginning } from './NewDialog.js'
import { useRequests } from './usePeople.js'

const loadKeys = () => import('../parts.js').then((m) => m.KeysDialog)

export const addAccountRoute = '*' // used in place of an account in a route; no user has this id

/** The menu above the list: accounts, contacts, new group, notes, devices and settings. */
export function AccountMenu({ onBegin }: { readonly onBegin: (what: Beginning) => void }): ReactElement {
  const { t } = useTranslation()
  const { user } = useSession()
  const name = useName(user)
  const accounts = useAccounts()
  const requests = useRequests()
  const [menu, setMenu] = useState<MenuPlace | undefined>(undefined)
  const [keys, setKeys] = useState(false)
  const closeKeys = useCallback(() => setKeys(false), [])
  useEffect(() => {
    const show = (): void => setKeys(true)
    addEventListener('petrel-keys', show)
    return () => removeEventListener('petrel-keys', show)
  }, [])
  return (
    <>
      <IconButton icon="menu" label={t('menu')} aria-haspopup="menu" onClick={(e) => {
        const { left, bottom } = e.currentTarget.getBoundingClientRect()
        setMenu({ x: left, y: bottom + 4 })
      }} />
      {menu && (
        <Menu at={menu} label={t('menu')} onClose={() => setMenu(undefined)}>
          <div className="menu-account"><Avatar id={user} name={name} size={36} /><span className="row-text"><span className="cut" dir="auto">{name}</span><br /><span className="quiet">@{user}</span></span></div>
          {accounts.filter((u) => u !== user).map((u) => <button type="button" role="menuitem" tabIndex={-1} className="menu-item" key={u} onClick={() => go({ account: u })}><Avatar id={u} name={u} size={24} />{u}</button>)}
          <MenuItem icon="add" onSelect={() => go({ account: addAccountRoute })}>{t('addAccount')}</MenuItem>
          <hr />
          <MenuItem icon="person" onSelect={() => onBegin('contacts')}><span className="row-text">{t('contacts')}</span>{requests > 0 && <Badge count={requests} label={t('requestsWait', { n: requests })} />}</MenuItem>
          <MenuItem icon="people" onSelect={() => onBegin('group')}>{t('newGroup')}</MenuItem>
          <MenuItem icon="bookmark" onSelect={() => go({ account: user, user })}>{t('notes')}</MenuItem>
          <MenuItem icon="device" onSelect={() => go({ account: user, panel: 'devices' })}>{t('devices')}</MenuItem>
          <MenuItem icon="gear" onSelect={() => go({ account: user, panel: 'settings' })}>{t('settings')}</MenuItem>
          {matchMedia('(any-pointer: fine)').matches && <MenuItem icon="keyboard" onSelect={() => setKeys(true)}>{t('keys')}</MenuItem>}
        </Menu>
      )}
      {keys && <Later load={loadKeys} onFailed={closeKeys} of={{ onClose: closeKeys }} />}
    </>
  )
}
