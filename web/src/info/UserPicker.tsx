import { useClient } from '@petrel-im/sdk/react'
import { type KeyboardEvent, type ReactElement, useState } from 'react'
import { Avatar, Button, Field, Icon, isComposing } from '../../ui/index.js'
import { findUser } from '../account/findUser.js'
import { isNamed, nameOf, useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failureText.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { isHandle } from '../sidebar/PeopleResult.js'
import { usePeople } from '../sidebar/usePeople.js'

const mostOffered = 8

/** The state of a UserPicker: the chosen users, and the text in its field. */
export interface Choice {
  readonly chosen: readonly string[]
  readonly without: readonly string[]
  readonly typed: string
  readonly error: string | undefined
  readonly choose: (users: readonly string[]) => void
  readonly type: (text: string) => void
  /**
   * Looks up the user whose id is typed, and adds that user to the chosen ones. It returns all chosen users; if
   * nothing is typed, those so far. If there is no such user, the user is a member already, or the server does not
   * answer, it sets the error and returns undefined.
   */
  readonly take: () => Promise<readonly string[] | undefined>
  /** Says why the chosen users were refused. */
  readonly refuse: (why: string) => void
}

/**
 * Returns the state of a UserPicker, at first without chosen users. Those in `without` are members already and
 * cannot be chosen.
 */
export function useChoice(without: readonly string[]): Choice {
  const { t } = useLaterTranslation()
  const client = useClient()
  const session = useSession()
  const [chosen, setChosen] = useState<readonly string[]>([])
  const [typed, setTyped] = useState('')
  const [error, setError] = useState<string | undefined>(undefined)
  const type = (text: string): void => {
    setTyped(text)
    setError(undefined)
  }
  const refuse = (why: string): undefined => {
    setError(why)
    return undefined
  }
  const take = async (): Promise<readonly string[] | undefined> => {
    const handle = handleIn(typed)
    if (handle === '') return chosen
    if (!isHandle(handle)) return refuse(t('errorHandle'))
    try {
      const account = await findUser(client, handle)
      const { user } = account
      session.profiles.learn(account)
      if (without.includes(user)) return refuse(t('errorMember', { name: nameOf(session, user) }))
      const and = (is: readonly string[]): readonly string[] => is.includes(user) ? is : [...is, user]
      setChosen(and)
      setTyped((is) => is === typed ? '' : is)
      return and(chosen)
    } catch (why) {
      return refuse(thrownText(why, t))
    }
  }
  return { chosen, without, typed, error, choose: setChosen, type, take, refuse }
}

function handleIn(typed: string): string {
  return typed.trim().replace(/^@/, '')
}

/**
 * A field to choose users: people whom the person knows, and others by their user id. Enter in the empty field
 * submits the form around it.
 */
export function UserPicker({ choice: { chosen, without, typed, error, choose, type, take } }: { readonly choice: Choice }): ReactElement {
  const { t } = useLaterTranslation()
  const session = useSession()
  const handle = handleIn(typed)
  const offered = usePeople(true).filter((p) => !without.includes(p) && !chosen.includes(p) && isNamed(p, typed, session)).slice(0, mostOffered)
  const pressed = (e: KeyboardEvent): void => {
    if (isComposing(e)) return
    if (e.key === 'Enter' && handle !== '') {
      e.preventDefault()
      void take()
    } else if (e.key === 'Backspace' && typed === '') choose(chosen.slice(0, -1))
  }
  return (
    <div className="picker">
      {chosen.length > 0 && <ul className="chips">{chosen.map((u) => <li key={u}><Chip user={u} onRemove={() => choose(chosen.filter((c) => c !== u))} /></li>)}</ul>}
      <div className="picker-line">
        <Field label={t('addByHandle')} value={typed} error={error} onChange={(e) => type(e.target.value)} onKeyDown={pressed} autoComplete="off" autoCapitalize="none" spellCheck={false} />
        <Button disabled={!isHandle(handle)} onClick={() => void take()}>{t('lookUp')}</Button>
      </div>
      {offered.map((u) => <Suggestion key={u} user={u} onAdd={() => { choose([...chosen, u]); type('') }} />)}
    </div>
  )
}

function Chip({ user, onRemove }: { readonly user: string; readonly onRemove: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const name = useName(user)
  return <button type="button" className="chip" aria-label={t('removeName', { name })} onClick={onRemove}><span className="cut" dir="auto">{name}</span><Icon name="close" small /></button>
}

function Suggestion({ user, onAdd }: { readonly user: string; readonly onAdd: () => void }): ReactElement {
  const name = useName(user)
  return (
    <button type="button" className="row" onClick={onAdd}>
      <Avatar id={user} name={name} size={36} /><span className="row-text cut" dir="auto">{name}</span><Icon name="add" />
    </button>
  )
}
