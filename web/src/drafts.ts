import { useSyncExternalStore } from 'react'
import { keep, onKept, recall } from './browserStorage.js'

// Texts that a person has typed but not sent, by account and conversation.

const listeners = new Set<() => void>()

function nameOf(account: string, chat: string): string {
  return `${account}:draft:${chat}`
}

export function draftOf(account: string, chat: string): string {
  return recall(nameOf(account, chat))
}

export function keepDraft(account: string, chat: string, text: string): void {
  if (draftOf(account, chat) === text) return
  keep(nameOf(account, chat), text)
  for (const f of listeners) f()
}

onKept((name) => {
  if (name === '' || name.includes(':draft:')) for (const f of listeners) f()
})

function subscribe(f: () => void): () => void {
  listeners.add(f)
  return () => listeners.delete(f)
}

export function useDraft(account: string, chat: string): string {
  return useSyncExternalStore(subscribe, () => draftOf(account, chat))
}

/** Calls f when another tab has changed the draft of a chat. The returned function removes f. */
export function onDraft(account: string, chat: string, f: () => void): () => void {
  return onKept((name) => {
    if (name === '' || name === nameOf(account, chat)) f()
  })
}
