import { isPetrelError } from '@petrel-im/sdk'
import { PetrelProvider, useStatus } from '@petrel-im/sdk/react'
import { Component, type ReactElement, type ReactNode, Suspense, use, useCallback, useEffect, useReducer, useRef } from 'react'
import { Button, Logo, Toasts } from '../ui/index.js'
import { useAccounts } from './account/accounts.js'
import { sessions } from './account/session.js'
import { type Session, SessionContext, useSession } from './account/SessionContext.js'
import { SignIn } from './account/SignIn.js'
import { useRoute } from './environment.js'
import { type Key, useTranslation } from './i18n/index.js'
import { useKeys } from './shortcuts.js'
import { Later } from './Later.js'
import { watchMessages } from './notifications.js'
import { Panes } from './Panes.js'
import { go } from './route.js'
import { AccountMenu, addAccountRoute } from './sidebar/AccountMenu.js'
import { Sidebar } from './sidebar/Sidebar.js'
import { useUnsent } from './clientSnapshot.js'
import { lookForUpdate, UpdateLine } from './UpdateLine.js'

export function App(): ReactElement {
  const { language, tag } = useTranslation()
  const route = useRoute()
  const [first] = useAccounts()
  useEffect(() => {
    document.documentElement.lang = tag
  }, [language, tag])
  useEffect(() => {
    if (route.account === '' && first !== undefined) go({ account: first }, true)
  }, [route, first])
  return (
    <>
      <Guard key={route.account}>
        {route.account === '' || route.account === addAccountRoute
          ? (route.account !== '' || first === undefined) && <SignIn />
          : <Suspense><Account key={route.account} account={route.account} /></Suspense>}
      </Guard>
      <UpdateLine />
      <Toasts />
    </>
  )
}

function Account({ account }: { readonly account: string }): ReactElement {
  const [, openAgain] = useReducer((n: number) => n + 1, 0)
  const session = sessions.opened(account) ?? use(sessions.open(account)) // even for a resolved promise React shows nothing for 300 ms, so an open session is used directly
  if (!session) return <SignIn />
  return <SessionContext value={session}><PetrelProvider client={session.client} profiles={session.profiles}><Open session={session} onAgain={openAgain} /></PetrelProvider></SessionContext>
}

/** Codes after which a person has to log in again. */
const ended = new Set(['unauthenticated', 'revoked', 'refresh_reused', 'replaced', 'user_disabled'])

function Open({ session, onAgain }: { readonly session: Session; readonly onAgain: () => void }): ReactElement {
  const { error, state } = useStatus()
  useEffect(() => watchMessages(session), [session])
  useEffect(() => {
    if (state === 'live') lookForUpdate().catch(() => {}) // the next connection tries again
  }, [state])
  if (error && !sessions.isLeaving(session.user) && (ended.has(error.code) || error.kind === 'store')) return <Ended code={error.code} onAgain={onAgain} />
  return <Page />
}

const loadSettings = () => import('./parts.js').then((m) => m.SettingsView)
const loadDevices = () => import('./parts.js').then((m) => m.DevicesView)
const noProps = {}

function Page(): ReactElement {
  const { panel, account } = useRoute()
  const leavePanel = useCallback(() => go({ account }, true), [account])
  const search = useRef<HTMLInputElement>(null)
  useKeys(search)
  return <Panes sidebar={<Sidebar search={search} menu={(onBegin) => <AccountMenu onBegin={onBegin} />} />} panel={panel !== '' && <Later key={panel} load={panel === 'settings' ? loadSettings : loadDevices} of={noProps} onFailed={leavePanel} />} />
}

const notes: Readonly<Partial<Record<string, Key>>> = { replaced: 'replacedNote', user_disabled: 'disabledNote' }

/** The page of an account that cannot be used any more as it is, with the reason. */
function Ended({ code, onAgain }: { readonly code: string; readonly onAgain: () => void }): ReactElement {
  const { t } = useTranslation()
  const session = useSession()
  const unsent = useUnsent()
  const known = ended.has(code)
  useEffect(() => {
    if (code === 'revoked' || code === 'user_disabled') sessions.revoked(session).catch(() => {}) // after an error the data is removed when the person logs in again
  }, [code, session])
  const again = (): void => {
    if (known) void sessions.leave(session).then(() => go({ account: addAccountRoute }, true), () => location.reload())
    else location.reload()
  }
  return (
    <main className="signin">
      <div className="signin-card">
        <Logo size={88} />
        <h1>{t(!known ? 'storeFailed' : code === 'user_disabled' ? 'disabled' : 'loggedOut')}</h1>
        <p className="quiet">{t(!known ? 'storeFailedNote' : notes[code] ?? 'loggedOutNote', { name: session.user })}</p>
        {known && unsent > 0 && <p className="field-error" role="alert">{t('unsentLost', { n: unsent })}</p>}
        <Button look="primary" wide onClick={again}>{t(!known ? 'reload' : code === 'user_disabled' ? 'signInOther' : 'signIn')}</Button>
        {!known && <Button wide onClick={() => void sessions.goOnWithoutStore(session).then(onAgain)}>{t('goOnWithoutStore')}</Button>}
      </div>
    </main>
  )
}

/** Shows an error and a button if drawing has failed; otherwise the page would be empty. */
class Guard extends Component<{ readonly children: ReactNode }, { readonly why: Key | undefined }> {
  override state = { why: undefined }

  static getDerivedStateFromError(thrown: unknown): { readonly why: Key } {
    return { why: thrown instanceof DOMException || isPetrelError(thrown) && thrown.kind === 'store' ? 'storeFailed' : 'failed' }
  }

  override render(): ReactNode {
    const { why } = this.state
    return why ? <Failed why={why} /> : this.props.children
  }
}

function Failed({ why }: { readonly why: Key }): ReactElement {
  const { t } = useTranslation()
  return <main className="signin"><div className="signin-card"><Logo size={88} /><h1>{t(why)}</h1><Button look="primary" wide onClick={() => location.reload()}>{t('reload')}</Button></div></main>
}
