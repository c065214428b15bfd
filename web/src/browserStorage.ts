// Small data that this browser keeps in localStorage. All keys begin with "petrel:", and those of an account with
// "petrel:ACCOUNT:", so that a logout can remove them.

const prefix = 'petrel:'

/** Returns the text that is kept under a name; '' if there is none, or the browser keeps nothing. */
export function recall(name: string): string {
  try {
    return localStorage.getItem(prefix + name) ?? ''
  } catch {
    return ''
  }
}

/** Keeps a text under a name; '' removes it. If the browser keeps nothing, the text is lost. */
export function keep(name: string, text: string): void {
  try {
    if (text === '') localStorage.removeItem(prefix + name)
    else localStorage.setItem(prefix + name, text)
  } catch {
    // localStorage is switched off, or full.
  }
}

/**
 * Calls f with a name when another tab has changed the text under it, or with '' when that tab removed all names.
 * The returned function removes f.
 */
export function onKept(f: (name: string) => void): () => void {
  const changed = (e: StorageEvent): void => {
    if (e.key === null) f('')
    else if (e.key.startsWith(prefix)) f(e.key.slice(prefix.length))
  }
  addEventListener('storage', changed)
  return () => removeEventListener('storage', changed)
}

/** Returns the names that begin with a text. */
export function namesOf(begin: string): string[] {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(prefix + begin)).map((key) => key.slice(prefix.length))
  } catch {
    return []
  }
}

/** Removes all that is kept of an account. */
export function forgetAccount(account: string): void {
  for (const name of namesOf(`${account}:`)) keep(name, '')
}
