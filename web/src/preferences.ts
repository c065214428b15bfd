import { useSyncExternalStore } from 'react'
import { keep, onKept, recall } from './browserStorage.js'

/** What a person prefers in this browser, whichever account is open. */
export interface Preferences {
  readonly language: 'auto' | 'en' | 'zh'
  readonly theme: 'auto' | 'light' | 'dark'
  readonly notify: boolean // notifications of the browser, for a tab that is not seen
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

/** Has the page drawn as preferred. The style sheet follows the system by itself. */
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
