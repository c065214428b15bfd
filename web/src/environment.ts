import type { Sent } from '@petrel-im/sdk'
import { createContext, use, useSyncExternalStore } from 'react'
import type { Language } from './i18n/translation.js'
import { addressRouter, type Route, type Router } from './route.js'

/** The surroundings of the chat: a page of its own, or an element in another page. */
export interface Environment {
  readonly router: Router
  /** The language of the texts; undefined: as the person prefers. */
  readonly language: Language | undefined
  /** Whether the field may take the focus when its chat is opened. */
  readonly takesFocus: (field: HTMLElement) => boolean
  /** Whether the person sees the chat now. Messages become read only then. */
  readonly isSeen: () => boolean
  /** Calls f when isSeen may have changed, until the returned function is called. */
  readonly onSeen: (f: () => void) => () => void
  /** Is called with each message that the person sends. */
  readonly sent: (m: Sent) => void
}

/** The environment of the page of the web chat. */
const page: Environment = {
  router: addressRouter,
  language: undefined,
  takesFocus: () => true,
  isSeen: () => document.visibilityState === 'visible' && document.hasFocus(),
  onSeen(f) {
    addEventListener('focus', f)
    document.addEventListener('visibilitychange', f)
    return () => {
      removeEventListener('focus', f)
      document.removeEventListener('visibilitychange', f)
    }
  },
  sent: () => {},
}

export const EnvironmentContext = createContext(page)

export function useEnvironment(): Environment {
  return use(EnvironmentContext)
}

export function useRoute(): Route {
  const { router } = useEnvironment()
  return useSyncExternalStore(router.subscribe, router.route)
}

/** Returns the function that goes to another route. It is always the same function. */
export function useGo(): Router['go'] {
  return useEnvironment().router.go
}
