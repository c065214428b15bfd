import { PetrelError } from '@petrel-im/sdk'
import { PetrelProvider, useStatus } from '@petrel-im/sdk/react'
import { Component, type ReactElement, type ReactNode, useEffect, useRef } from 'react'
import './embed.css'
import { Button, IconButton, ToastContext, type ToastList, Toasts } from '../../ui/index.js'
import { type Session, SessionContext } from '../account/SessionContext.js'
import { thrownText } from '../chat/failureText.js'
import { type Environment, EnvironmentContext, useRoute } from '../environment.js'
import { useTranslation } from '../i18n/index.js'
import { Panes } from '../Panes.js'
import { Sidebar } from '../sidebar/Sidebar.js'
import { useChat } from '../clientSnapshot.js'
import { refused } from './pageLogin.js'

/**
 * The content of an element: the chat of a session, drawn anew for each key; an error; or nothing yet (undefined).
 */
export type Shown = { readonly session: Session; readonly key: number } | { readonly error: unknown } | undefined

interface EmbeddedProps {
  readonly shown: Shown
  readonly one: boolean // it shows one conversation, which the page names, and no list
  readonly element: HTMLElement
  readonly environment: Environment
  readonly toasts: ToastList
  readonly onError: (error: unknown) => void
  readonly onOther: (user: string) => void // the token of the session is of another user
  readonly onAgain: () => void
}

/** The content of one element. */
export function Embedded({ shown, one, element, environment, toasts, onError, onOther, onAgain }: EmbeddedProps): ReactElement {
  return (
    <EnvironmentContext value={environment}>
      <ToastContext value={toasts}>
        <Guard onError={onError} onAgain={onAgain}>
          {shown && 'error' in shown && <Refused error={shown.error} onAgain={onAgain} />}
          {shown && 'session' in shown && (
            <SessionContext key={shown.key} value={shown.session}>
              <PetrelProvider client={shown.session.client} profiles={shown.session.profiles}><Open session={shown.session} one={one} onError={onError} onOther={onOther} onAgain={onAgain} /></PetrelProvider>
            </SessionContext>
          )}
        </Guard>
        <Toasts within={element} />
      </ToastContext>
    </EnvironmentContext>
  )
}

function Open({ session, one, onError, onOther, onAgain }: Pick<EmbeddedProps, 'one' | 'onError' | 'onOther' | 'onAgain'> & { readonly session: Session }): ReactElement {
  const { t } = useTranslation()
  const { error, user } = useStatus()
  const search = useRef<HTMLInputElement>(null)
  const other = user !== '' && user !== session.user ? user : ''
  const ends = error && (final.has(error.code) || error.kind === 'store') ? error : undefined
  useEffect(() => {
    if (other) onOther(other)
    else if (ends) onError(ends)
  }, [other, ends, onError, onOther])
  if (ends) return <Refused error={new PetrelError(ends)} user={session.user} onAgain={onAgain} />
  if (one) return <><Panes part /><Missing onError={onError} /></>
  return <Panes part sidebar={<Sidebar search={search} menu={(onBegin) => <IconButton icon="person" label={t('contacts')} onClick={() => onBegin('contacts')} />} />} />
}

/** Reports to the page that its attribute conv names no conversation of the user. */
function Missing({ onError }: Pick<EmbeddedProps, 'onError'>): null {
  const { conv } = useRoute()
  const { synced } = useStatus()
  const known = useChat(conv, '') !== undefined
  const missing = synced && conv !== '' && !known
  useEffect(() => {
    if (missing) onError(refused('no_conversation', `there is no conversation ${conv} of the user`, 'check the attribute conv'))
  }, [missing, conv, onError])
  return null
}

/** Error codes after which the page has to provide a new login. */
const ended = new Set(['unauthenticated', 'revoked', 'refresh_reused', 'user_disabled'])
/** Error codes after which an error is shown in place of the chat, because the client does not try again by itself. */
const final = new Set([...ended, 'replaced', 'invalid', 'version_unsupported'])

/** Shows why there is no chat, and a button to try again. */
function Refused({ error, user = '', onAgain }: { readonly error: unknown; readonly user?: string; readonly onAgain: () => void }): ReactElement {
  const { t } = useTranslation()
  const code = codeOf(error)
  const text = code === 'user_disabled' ? t('disabledNote', { name: user }) : code === 'replaced' ? t('replacedNote', { name: user }) : ended.has(code) ? '' : thrownText(error, t)
  return (
    <div className="embed-refused" role="alert">
      <h1>{t(code === 'user_disabled' ? 'disabled' : ended.has(code) || code === 'replaced' ? 'loggedOut' : 'failed')}</h1>
      {text && <p className="quiet">{text}</p>}
      <Button look="primary" onClick={onAgain}>{t('retry')}</Button>
    </div>
  )
}

/** Returns the code of an error that was thrown or is in a status; '' if it has none. */
export function codeOf(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : ''
}

export function messageOf(error: unknown): string {
  return typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error)
}

/** Shows an error and a button if drawing has failed; otherwise the element would be empty. */
class Guard extends Component<{ readonly onError: (error: unknown) => void; readonly onAgain: () => void; readonly children: ReactNode }, { readonly error: unknown }> {
  override state = { error: undefined }

  static getDerivedStateFromError(error: unknown): { readonly error: unknown } {
    return { error }
  }

  override componentDidCatch(error: unknown): void {
    this.props.onError(error)
  }

  override render(): ReactNode {
    const { error } = this.state
    if (error === undefined) return this.props.children
    return <Refused error={error} onAgain={() => {
      this.setState({ error: undefined })
      this.props.onAgain()
    }} />
  }
}
