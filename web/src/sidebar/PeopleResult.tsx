import { type Conversation, isPetrelError } from '@petrel-im/sdk'
import { useClient, useProfile } from '@petrel-im/sdk/react'
import { type ReactElement, type ReactNode, useEffect, useState } from 'react'
import { Avatar } from '../../ui/index.js'
import { findUser, type Found } from '../account/findUser.js'
import { useName } from '../account/useName.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failureText.js'
import { useTranslation } from '../i18n/index.js'
import { useGo } from '../environment.js'

const restMs = 400 // wait after the last key before the server is asked
export const isHandle = (text: string): boolean => /^[A-Za-z0-9._@+-]{1,64}$/.test(text)

/**
 * The user whose user id or handle the person has typed. The server finds users by the exact one only. beside returns
 * what is shown beside the user.
 */
export function PeopleResult({ wanted, known, shown = [], onOpen, beside }: { readonly wanted: string; readonly known: readonly Conversation[]; readonly shown?: readonly string[]; readonly onOpen: () => void; readonly beside?: (user: string) => ReactNode }): ReactElement | null {
  const { t } = useTranslation()
  const client = useClient()
  const { user, profiles } = useSession()
  const go = useGo()
  const handle = wanted.trim().replace(/^@/, '')
  const [found, setFound] = useState<Found | string | undefined>(undefined) // a text: the reason why there is none
  const has = known.some((v) => v.peer === handle) || shown.includes(handle)
  useEffect(() => {
    if (!isHandle(handle) || has) return undefined
    const over = new AbortController()
    const timer = setTimeout(() => {
      findUser(client, handle, { signal: over.signal }).then((account) => {
        profiles.learn(account)
        setFound(account)
      }, (why: unknown) => {
        if (!over.signal.aborted) setFound(isPetrelError(why) && why.code === 'no_user' ? t('noSuchUser') : thrownText(why, t))
      })
    }, restMs)
    return () => {
      clearTimeout(timer)
      over.abort()
    }
  }, [client, handle, has, profiles, t])
  if (has) return null
  if (found === undefined || typeof found === 'string') {
    if (known.length > 0 || shown.length > 0) return null
    return <p className="sidebar-empty">{found ?? t(isHandle(handle) ? 'searching' : 'noSuchUser')}</p>
  }
  if (known.some((v) => v.peer === found.user) || shown.includes(found.user)) return null
  return (
    <>
      <h2 className="sidebar-part">{t('people')}</h2>
      <div className="person-line"><PersonRow user={found.user} onOpen={() => { onOpen(); go({ account: user, user: found.user }) }} />{beside?.(found.user)}</div>
    </>
  )
}

/** A row for a user with whom the person can begin to chat. */
export function PersonRow({ user, onOpen }: { readonly user: string; readonly onOpen: () => void }): ReactElement {
  const { t } = useTranslation()
  const known = useName(user)
  const handle = useProfile(user)?.handle || user
  const self = useSession().user === user
  const name = self ? t('notes') : known
  return (
    <button type="button" className="chat-row people-row" onClick={onOpen}>
      <Avatar id={user} name={name} icon={self ? 'bookmark' : undefined} />
      <span className="chat-row-text"><span className="chat-row-name cut" dir="auto">{name}</span><span className="chat-row-last cut">@{handle}</span></span>
    </button>
  )
}
