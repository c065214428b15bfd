import { useSyncExternalStore } from 'react'
import { keep, onKept, recall } from './browserStorage.js'

/** The preferences in this browser, the same for all accounts. */
export interface Preferences {
  readonly language: 'auto' | 'en' | 'zh'
  readonly theme: 'auto' | 'light' | 'dark'
  readonly notify: boolean // browser notifications, while the tab is not seen
  readonly sound: boolean
}

const usual: Preferences = { language: 'auto', theme: 'auto', notify: false, sound: true }

let now = read()
const listeners = new Set<() => void>()

function read(): Preferences {
  try {
    return { ...usual, ...JSON.parse(recall('preferences') || '{}') as Partial<Preferences> }
  } catch {
    return usual
  }
}

export function preferences(): Preferences {
  return now
}

export function prefer(change: Partial<Preferences>): void {
  now = { ...now, ...change }
  keep('preferences', JSON.stringify(now))
  tell()
}

function tell(): void {
  for (const f of listeners) f()
}

/** Applies the preferred theme to the page. With auto the style sheet follows the system. */
export function applyTheme(): void {
  if (now.theme === 'auto') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = now.theme
}

onKept((name) => {
  if (name !== 'preferences' && name !== '') return
  now = read()
  tell()
})

export function subscribePreferences(f: () => void): () => void {
  listeners.add(f)
  return () => listeners.delete(f)
}

export function usePreferences(): Preferences {
  return useSyncExternalStore(subscribePreferences, preferences)
}
