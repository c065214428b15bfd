import { useClient, useConversations } from '@petrel-im/sdk/react'
import { type KeyboardEvent, type ReactElement, useState } from 'react'
import { Avatar, Button, Field, Icon, isComposing } from '../../ui/index.js'
import { findUser } from '../account/find.js'
import { useName } from '../account/names.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failure.js'
import { useTranslation } from '../i18n/index.js'
import { isHandle } from '../sidebar/PeopleResult.js'

const mostOffered = 8

/** Chooses users: those one talks with, and others by their handle. */
export function UserPicker({ chosen, without = [], onChange }: { readonly chosen: readonly string[]; readonly without?: readonly string[]; readonly onChange: (users: readonly string[]) => void }): ReactElement {
  const { t } = useTranslation()
  const client = useClient()
  const { user, names } = useSession()
  const [text, setText] = useState('')
  const [error, setError] = useState<string | undefined>(undefined)
  const words = text.trim().replace(/^@/, '').toLowerCase()
  const peers = useConversations().map((v) => v.peer).filter((p) => p !== '' && p !== user && !without.includes(p))
  const offered = peers.filter((p) => !chosen.includes(p) && (p.toLowerCase().includes(words) || names.of(p).toLowerCase().includes(words))).slice(0, mostOffered)
  const add = (handle: string): void => {
    setText('')
    setError(undefined)
    if (!chosen.includes(handle) && !without.includes(handle) && handle !== user) onChange([...chosen, handle])
  }
  const addTyped = async (): Promise<void> => {
    const handle = text.trim().replace(/^@/, '')
    if (!isHandle(handle)) return
    try {
      const found = await findUser(client, handle)
      names.learn(found.user, found.displayName)
      add(found.user)
    } catch (why) {
      setError(thrownText(why, t))
    }
  }
  const pressed = (e: KeyboardEvent): void => {
    if (isComposing(e)) return
    if (e.key === 'Enter') {
      e.preventDefault()
      void addTyped()
    } else if (e.key === 'Backspace' && text === '') onChange(chosen.slice(0, -1))
  }
  return (
    <div className="picker">
      {chosen.length > 0 && <ul className="chips">{chosen.map((u) => <li key={u}><Chip user={u} onRemove={() => onChange(chosen.filter((c) => c !== u))} /></li>)}</ul>}
      <div className="picker-line">
        <Field label={t('addByHandle')} value={text} error={error} onChange={(e) => { setText(e.target.value); setError(undefined) }} onKeyDown={pressed} autoComplete="off" autoCapitalize="none" spellCheck={false} />
        <Button disabled={!isHandle(words)} onClick={() => void addTyped()}>{t('add')}</Button>
      </div>
      {offered.map((u) => <Suggestion key={u} user={u} onAdd={() => add(u)} />)}
    </div>
  )
}

function Chip({ user, onRemove }: { readonly user: string; readonly onRemove: () => void }): ReactElement {
  const { t } = useTranslation()
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
