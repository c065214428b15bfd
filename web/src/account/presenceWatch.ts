import type { Client } from '@petrel-im/sdk'

const most = 200 // P-13.5

/** Watches users for one view; conv: the open conversation that shows them. The returned function ends that. */
export type Watch = (users: readonly string[], conv?: string) => () => void

/**
 * Returns a function that watches the presence and the profiles of users for one view. The client watches the users of
 * all views together, at most 200: those of the open conversation first, the ones that were shown last before others.
 */
export function watchFor(client: Pick<Client, 'watch'>): Watch {
  const views = new Set<{ readonly users: readonly string[]; readonly conv: string }>()
  let waiting = false
  let told = ''
  const changed = (): void => {
    if (waiting) return
    waiting = true
    queueMicrotask(() => { // one call, even if a view replaces its users
      waiting = false
      const newest = [...views].reverse()
      const conv = newest.find((v) => v.conv !== '')?.conv ?? ''
      const first = newest.filter((v) => v.conv !== '' && v.conv === conv)
      const users = [...new Set([...first, ...views].flatMap((v) => v.users))].slice(0, most).sort()
      const list = JSON.stringify([conv, users])
      if (list === told) return // a view more of a user who is watched already
      told = list
      client.watch(users, conv)
    })
  }
  return (users, conv = '') => {
    const mine = { users: [...users], conv }
    views.add(mine)
    changed()
    return () => {
      views.delete(mine)
      changed()
    }
  }
}
