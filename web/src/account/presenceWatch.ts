import type { Client } from '@petrel-im/sdk'

const most = 200 // P-13.5

/**
 * Returns a function that watches the presence of users for one view of a client; the function that it returns ends
 * that. The client watches the users of all views together.
 */
export function watchFor(client: Pick<Client, 'watch'>): (users: readonly string[]) => () => void {
  const views = new Set<readonly string[]>()
  let waiting = false
  const changed = (): void => {
    if (waiting) return
    waiting = true
    queueMicrotask(() => { // one call, even if a view replaces its users
      waiting = false
      client.watch([...new Set([...views].flat())].slice(0, most))
    })
  }
  return (users) => {
    const mine = [...users]
    views.add(mine)
    changed()
    return () => {
      views.delete(mine)
      changed()
    }
  }
}
