import { useClient } from '@petrel-im/sdk/react'
import { type RefObject, useEffect } from 'react'
import { isComposing } from '../ui/index.js'
import { useSession } from './account/SessionContext.js'
import { isNarrow } from './useNarrow.js'
import { go, route } from './route.js'
import { chatRoute, inOrder, isListed } from './sidebar/chatList.js'

/** Closes the panel beside the chat, or in its place. */
function closeBeside(account: string): void {
  const at = route()
  if (at.panel === 'devices') go({ account, panel: 'settings' })
  else if (at.panel !== '') go({ account })
  else if (at.info || at.person !== '' || at.thread > 0) go({ ...at, info: false, person: '', thread: 0 }, true)
}

/** The keys that work everywhere in the page. */
export function useKeys(search: RefObject<HTMLInputElement | null>): void {
  const client = useClient()
  const { user } = useSession()
  useEffect(() => {
    const pressed = (e: KeyboardEvent): void => {
      if (isComposing(e) || e.defaultPrevented || document.querySelector('dialog[open]')) return
      const writing = e.target instanceof HTMLElement && /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName)
      if ((e.ctrlKey || e.metaKey) && e.key.toLowerCase() === 'k' || !writing && e.key === '/') {
        e.preventDefault()
        if (route().panel !== '' || isNarrow()) go({ account: user })
        requestAnimationFrame(() => search.current?.select())
        search.current?.focus()
      } else if (e.altKey && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) {
        e.preventDefault()
        const listed = inOrder(client, client.conversations().filter((v) => isListed(v) && !v.personal.archived && !v.left))
        const { conv, user: peer } = route()
        const at = listed.findIndex((v) => v.id === conv || peer !== '' && v.peer === peer)
        const next = listed[e.key === 'ArrowDown' ? Math.min(at + 1, listed.length - 1) : Math.max(0, at - 1)]
        if (next) go(chatRoute(user, next))
      } else if (e.key === 'Escape' && !document.querySelector('[popover="auto"]:popover-open')) closeBeside(user)
      else if (!writing && e.key === '?') {
        e.preventDefault()
        dispatchEvent(new Event('petrel-keys'))
      }
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [client, search, user])
}
