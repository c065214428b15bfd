import { useSyncExternalStore } from 'react'
import { keep, onKept, recall } from '../browserStorage.js'

/** The users who are logged in at this browser; the one who logged in last comes first. */
let accounts = read()
const listeners = new Set<() => void>()

function read(): readonly string[] {
  try {
    return JSON.parse(recall('accounts') || '[]') as string[]
  } catch {
    return []
  }
}

function set(now: readonly string[]): void {
  accounts = now
  keep('accounts', now.length > 0 ? JSON.stringify(now) : '')
  for (const f of listeners) f()
}

export function allAccounts(): readonly string[] {
  return accounts
}

/**
 * Whether this browser may keep data of an account: the account is in the list, or has a kept device id. That of a
 * <petrel-chat> element is in no list. A logout ends both.
 */
export function mayKeep(account: string): boolean {
  return accounts.includes(account) || recall(`${account}:device`) !== ''
}

export function addAccount(user: string): void {
  set([user, ...accounts.filter((u) => u !== user)])
}

export function removeAccount(user: string): void {
  set(accounts.filter((u) => u !== user))
}

onKept((name) => {
  if (name !== 'accounts' && name !== '') return
  accounts = read()
  for (const f of listeners) f()
})

export function useAccounts(): readonly string[] {
  return useSyncExternalStore((f) => {
    listeners.add(f)
    return () => listeners.delete(f)
  }, allAccounts)
}
