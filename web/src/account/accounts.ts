import { useSyncExternalStore } from 'react'
import { keep, onKept, recall } from '../browserStorage.js'

/** The users who have logged in at this browser, the last one first. */
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

/** Whether this browser may keep something of an account: after a logout it may not. An element of a page keeps the device of its account, and stands in no list. */
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
