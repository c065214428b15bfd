import type { Sent } from '@petrel-im/sdk'
import { createContext, use, useSyncExternalStore } from 'react'
import type { Language } from './i18n/translation.js'
import { addressRouter, type Route, type Router } from './route.js'

/** What is around the chat: a page of its own, or an element in the page of somebody else. */
export interface Environment {
  readonly router: Router
  /** The language of the texts; undefined: the one that the person prefers. */
  readonly language: Language | undefined
  /** Whether the field may take the focus when its chat is opened. */
  readonly takesFocus: (field: HTMLElement) => boolean
  /** Whether the person sees the chat now. Only then messages become read. */
  readonly isSeen: () => boolean
  /** Has f called when that may have changed. The function that it returns ends that. */
  readonly onSeen: (f: () => void) => () => void
  /** Is told of each message that the person writes. */
  readonly sent: (m: Sent) => void
}

/** The page of the web chat. */
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

/** Goes to another route. The function stays the same. */
export function useGo(): Router['go'] {
  return useEnvironment().router.go
}
