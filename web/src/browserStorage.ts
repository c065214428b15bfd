// Small things that this browser keeps, in localStorage. Their keys begin with "petrel:", and
// those of an account with "petrel:ACCOUNT:", so that a logout can remove them.

const prefix = 'petrel:'

/** What is kept under a name; '' if nothing is, or the browser keeps nothing. */
export function recall(name: string): string {
  try {
    return localStorage.getItem(prefix + name) ?? ''
  } catch {
    return ''
  }
}

/** Keeps a text, '' for none. A browser that keeps nothing loses it with the page. */
export function keep(name: string, text: string): void {
  try {
    if (text === '') localStorage.removeItem(prefix + name)
    else localStorage.setItem(prefix + name, text)
  } catch {
    // The person has switched it off, or it is full.
  }
}

/** Has f called when another tab has changed what is kept under a name; '' for all of it. */
export function onKept(f: (name: string) => void): () => void {
  const changed = (e: StorageEvent): void => {
    if (e.key === null) f('')
    else if (e.key.startsWith(prefix)) f(e.key.slice(prefix.length))
  }
  addEventListener('storage', changed)
  return () => removeEventListener('storage', changed)
}

/** The names that begin with a text. */
export function namesOf(begin: string): string[] {
  try {
    return Object.keys(localStorage).filter((key) => key.startsWith(prefix + begin)).map((key) => key.slice(prefix.length))
  } catch {
    return []
  }
}

/** Removes what is kept of an account. */
export function forgetAccount(account: string): void {
  for (const name of namesOf(`${account}:`)) keep(name, '')
}
