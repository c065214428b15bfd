import type { Client } from '@petrel-im/sdk'

const most = 200 // P-13.5

/**
 * Returns a function that watches the presence of users for one view. It returns the function that ends the watch of
 * that view. The client watches the users of all views together, at most 200.
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
