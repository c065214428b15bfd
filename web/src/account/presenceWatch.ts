import type { Client } from '@petrel-im/sdk'

const most = 200 // P-13.5

/** Watches the presence of users for several views of a client. The returned function takes the users of one view, and returns the function that ends that. */
export function watchFor(client: Pick<Client, 'watch'>): (users: readonly string[]) => () => void {
  const views = new Set<readonly string[]>()
  let waiting = false
  const changed = (): void => {
    if (waiting) return
    waiting = true
    queueMicrotask(() => { // once, when a view takes others
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
