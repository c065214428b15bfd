import { isPetrelError, type ResponseOf } from '@petrel-im/sdk'
import { useClient, useProfile, useStatus } from '@petrel-im/sdk/react'
import { type FormEvent, type ReactElement, useEffect, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Avatar, Button, Choices, Field, IconButton, RowButton, Switch, toast } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { soon, thrownText } from '../chat/failureText.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { UserLine } from '../chat/WhoDialog.js'
import { useContactChange } from '../contacts/useContactChange.js'
import { mayNotify, permission } from '../notifications.js'
import { prefer, usePreferences } from '../preferences.js'
import { version } from '../pageMeta.js'
import { useOfClient } from '../clientSnapshot.js'
import { go } from '../route.js'
import { DeleteAccountDialog } from './DeleteAccountDialog.js'
import { LogoutDialog } from './LogoutDialog.js'
import { ProfileDialog } from './ProfileDialog.js'
import './settings.css'

/** The preferences and the account of the person. */
export function SettingsView(): ReactElement {
  const { t } = useLaterTranslation()
  const { user } = useSession()
  const name = useName(user)
  const handle = useProfile(user)?.handle || user
  const [open, setOpen] = useState<'profile' | 'password' | 'logout' | 'delete' | undefined>(undefined)
  return (
    <main className="settings">
      <header className="chat-header">
        <IconButton icon="back" label={t('back')} onClick={() => go({ account: user })} />
        <h1 className="settings-title">{t('settings')}</h1>
      </header>
      <div className="settings-body">
        <div className="info-head"><Avatar id={user} name={name} size={96} /><h2 dir="auto">{name}</h2><p className="quiet">@{handle}</p></div>
        <Look />
        <Notices />
        <section className="card">
          <h2 className="info-title">{t('account')}</h2>
          <RowButton icon="person" onClick={() => setOpen('profile')}>{t('editProfile')}</RowButton>
          <RowButton icon="key" onClick={() => setOpen('password')}>{t('changePassword')}</RowButton>
          <RowButton icon="device" onClick={() => go({ account: user, panel: 'devices' })}>{t('devices')}</RowButton>
          <RowButton icon="exit" danger onClick={() => setOpen('logout')}>{t('logOut')}</RowButton>
          <RowButton icon="trash" danger onClick={() => setOpen('delete')}>{t('deleteAccount')}</RowButton>
        </section>
        <Privacy />
        <Blocked />
        <Refused />
        <p className="quiet settings-version">{version} · <ServerVersion /></p>
      </div>
      {open === 'profile' && <ProfileDialog onClose={() => setOpen(undefined)} />}
      {open === 'password' && <PasswordDialog onClose={() => setOpen(undefined)} />}
      {open === 'delete' && <DeleteAccountDialog onClose={() => setOpen(undefined)} />}
      {open === 'logout' && <LogoutDialog onClose={() => setOpen(undefined)} />}
    </main>
  )
}

function ServerVersion(): ReactElement {
  return <>{useStatus().server}</>
}

function Look(): ReactElement {
  const { t } = useLaterTranslation()
  const { theme, language } = usePreferences()
  return (
    <section className="card">
      <h2 className="info-title">{t('look')}</h2>
      <div className="card-choices"><Choices titled label={t('theme')} value={theme} onChange={(value) => prefer({ theme: value })} of={[['auto', t('themeAuto')], ['light', t('themeLight')], ['dark', t('themeDark')]]} /></div>
      <div className="card-choices"><Choices titled label={t('language')} value={language} onChange={(value) => prefer({ language: value })} of={[['auto', t('languageAuto')], ['en', 'English'], ['zh', '中文']]} /></div>
    </section>
  )
}

function Notices(): ReactElement {
  const { t } = useLaterTranslation()
  const { notify, sound } = usePreferences()
  const [allowed, setAllowed] = useState(permission)
  const change = async (on: boolean): Promise<void> => {
    if (on && !await mayNotify()) {
      setAllowed(permission())
      toast(t('notificationsRefused'))
      return
    }
    prefer({ notify: on })
  }
  return (
    <section className="card">
      <h2 className="info-title">{t('notifications')}</h2>
      {allowed !== 'unsupported' && <Switch icon="bell" on={notify && allowed !== 'denied'} onChange={(on) => void change(on)}>{t('notifyHidden')}</Switch>}
      <Switch icon="sound" on={sound} onChange={(on) => prefer({ sound: on })}>{t('sound')}</Switch>
    </section>
  )
}

type Account = ResponseOf<'petrel.v1.AccountService/GetAccount'>
type FirstMessagesChoice = NonNullable<Account['firstMessages']>
type AddPolicy = NonNullable<Account['addPolicy']>

/** What others learn of the user, and what becomes of messages of strangers, which is a choice where the tenant has a rule. */
function Privacy(): ReactElement | null {
  const { t } = useLaterTranslation()
  const client = useClient()
  const { state } = useStatus()
  const [account, setAccount] = useState<Account | undefined>(undefined)
  useEffect(() => {
    if (state === 'live') client.call('petrel.v1.AccountService/GetAccount', {}).then(setAccount, () => {}) // without an answer nothing is shown
  }, [client, state])
  if (!account) return null
  /** Shows the account at once as it will be. */
  const change = (next: Partial<Account>, call: Promise<Account>): void => {
    setAccount({ ...account, ...next })
    call.then(setAccount, (why: unknown) => {
      setAccount(account)
      toast(thrownText(why, t))
    })
  }
  const choose = (firstMessages: FirstMessagesChoice): void => change({ firstMessages }, client.call('petrel.v1.AccountService/SetFirstMessages', { firstMessages }, soon(client)))
  const hide = (privateReading: boolean): void => change({ privateReading }, client.call('petrel.v1.AccountService/SetPrivateReading', { private: privateReading }, soon(client)))
  const chosen = account.firstMessagesDefault && (account.firstMessages ?? account.firstMessagesDefault)
  const byContacts = chosen === 'FIRST_MESSAGES_REQUEST' || chosen === 'FIRST_MESSAGES_CLOSED' // a user who has not chosen is added by them. P-8.8
  const adds = account.addPolicy ?? (byContacts ? 'ADD_POLICY_CONTACTS' : 'ADD_POLICY_EVERYBODY')
  const setAdds = (addPolicy: AddPolicy): void => change({ addPolicy }, client.call('petrel.v1.AccountService/SetAddPolicy', { policy: addPolicy }, soon(client)))
  return (
    <>
      <section className="card">
        <h2 className="info-title">{t('privacy')}</h2>
        <Switch icon="eye" on={account.privateReading ?? false} onChange={hide}>{t('privateReading')}</Switch>
        <p className="info-note">{t('privateReadingHint')}</p>
        <div className="card-choices"><Choices titled label={t('whoAdds')} value={adds} onChange={setAdds} of={[['ADD_POLICY_EVERYBODY', t('everybody')], ['ADD_POLICY_CONTACTS', t('contacts')], ['ADD_POLICY_NOBODY', t('nobody')]]} /></div>
      </section>
      {chosen && (
        <section className="card">
          <h2 className="info-title">{t('firstMessages')}</h2>
          <div className="card-choices"><Choices label={t('firstMessages')} value={chosen} onChange={choose} of={[['FIRST_MESSAGES_OPEN', t('firstMessagesOpen')], ['FIRST_MESSAGES_REQUEST', t('firstMessagesAsk')], ['FIRST_MESSAGES_CLOSED', t('firstMessagesClosed')]]} /></div>
          <p className="info-note">{t('firstMessagesHint')}</p>
        </section>
      )}
    </>
  )
}

function Blocked(): ReactElement | null {
  const { t } = useLaterTranslation()
  const client = useClient()
  const blocked = useOfClient((c) => c.blocked())
  if (blocked.length === 0) return null
  return (
    <section className="card">
      <h2 className="info-title">{t('blockedUsers')}</h2>
      <ul>{blocked.map((u) => (
        <li key={u} className="blocked">
          <ul className="row-text"><UserLine user={u} note="" /></ul>
          <Button small onClick={() => void client.block(u, false).catch((why: unknown) => toast(thrownText(why, t)))}>{t('unblock')}</Button>
        </li>
      ))}</ul>
    </section>
  )
}

/** The strangers whose messages the person has refused. */
function Refused(): ReactElement | null {
  const { t } = useLaterTranslation()
  const refused = useOfClient((c) => c.conversations()).filter((v) => v.personal.firstMessages === 'refused')
  const { busy, error, change } = useContactChange()
  if (refused.length === 0) return null
  return (
    <section className="card">
      <h2 className="info-title">{t('refusedUsers')}</h2>
      <p className="info-note">{t('blockedNote')}</p>
      <ul>{refused.map(({ peer }) => (
        <li key={peer} className="blocked">
          <ul className="row-text"><UserLine user={peer} note="" /></ul>
          <Button small disabled={busy} onClick={() => change((contacts, options) => contacts.acceptMessages(peer, options))}>{t('accept')}</Button>
        </li>
      ))}</ul>
      {error !== undefined && <p className="info-note field-error" role="alert">{error}</p>}
    </section>
  )
}

function PasswordDialog({ onClose }: { readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const [old, setOld] = useState('')
  const [next, setNext] = useState('')
  const [wrong, setWrong] = useState<{ readonly old?: string; readonly next?: string }>({})
  const save = (e: FormEvent): void => {
    e.preventDefault()
    client.call('petrel.v1.AccountService/ChangePassword', { oldPassword: old, newPassword: next }).then(() => {
      toast(t('passwordChanged'))
      onClose()
    }, (why: unknown) => {
      const code = isPetrelError(why) ? why.code : ''
      setWrong(code === 'bad_credentials' ? { old: t('errorOldPassword') } : { next: thrownText(why, t) })
    })
  }
  return (
    <Dialog title={t('changePassword')} closeLabel={t('close')} onClose={onClose} foot={<Button look="primary" type="submit" form="password" disabled={next.length < 8}>{t('save')}</Button>}>
      <form id="password" className="dialog-body" onSubmit={save}>
        <Field label={t('oldPassword')} type="password" reveal={t('showPassword')} autoComplete="current-password" value={old} error={wrong.old} onChange={(e) => setOld(e.target.value)} />
        <Field label={t('newPassword')} type="password" reveal={t('showPassword')} autoComplete="new-password" hint={t('passwordHint')} value={next} error={wrong.next} onChange={(e) => setNext(e.target.value)} />
        <p className="quiet">{t('passwordNote')}</p>
      </form>
    </Dialog>
  )
}
