import { Database } from './indexeddb.js'
import { memoryStore, type Seam, type Shared, type SharedStore, type Warning } from './store.js'
import { type Browser, type Channel, Tab } from './tabs/tab.js'

/** What of a browser the store uses; tests bring their own. */
export interface BrowserParts {
  readonly indexedDB?: IDBFactory | undefined
  /** undefined: it has no Web Locks, as on a page without TLS. */
  readonly browser?: Browser | undefined
}

/**
 * A store in the database of the browser, for one user of one tenant on this origin. All
 * tabs with the same account share it, and one connection. `account` names both, for
 * example 'acme/alice': two accounts live side by side.
 *
 * Where the browser gives no database, as in some private windows, or no locks, as on a page
 * without TLS, everything is kept in memory, each tab has a connection of its own, and
 * `Status.warnings` says so.
 */
export function browserStore(account: string, parts: BrowserParts = here()): SharedStore {
  return { share: (seam) => share(`petrel:${account}`, parts, seam) }
}

function share(name: string, { indexedDB, browser }: BrowserParts, seam: Seam): Shared {
  if (!indexedDB || !browser) return alone(seam, ['memory', ...(browser ? [] : ['alone'] as const)])
  let part: Shared = new Tab(new Database(name, indexedDB), browser, seam)
  return {
    transport: { speaks: seam.transport.speaks, connect: (address, on) => part.transport.connect(address, on) },
    store: {
      async load() {
        try {
          return await part.store.load()
        } catch (why) { // it is there, and may not be used
          seam.log(`cannot read the database: ${String(why)}`)
          await part.store.close()
          part = alone(seam, ['memory', 'alone'])
          return []
        }
      },
      write: (rows, durable) => part.store.write(rows, durable),
      close: () => part.store.close(),
      wipe: () => part.store.wipe(),
    },
    running: (on) => part.running(on),
    settled: (messages) => part.settled(messages),
  }
}

/** A client that shares nothing, and remembers nothing when its page is closed. */
function alone(seam: Seam, warnings: readonly Warning[]): Shared {
  queueMicrotask(() => {
    seam.warn(warnings)
    seam.lead()
  })
  return { store: memoryStore(), transport: seam.transport, running: () => {}, settled: () => {} }
}

/** The parts of the browser that this runs in. */
export function here(): BrowserParts {
  const { navigator, document, BroadcastChannel } = globalThis as Partial<typeof globalThis>
  let indexedDB: IDBFactory | undefined
  try {
    indexedDB = globalThis.indexedDB
  } catch {
    // A page in a sandbox may not even look whether there is one.
  }
  if (!navigator?.locks || !document || !BroadcastChannel) return { indexedDB }
  return {
    indexedDB,
    browser: {
      locks: navigator.locks as unknown as Browser['locks'],
      channel: (name) => new BroadcastChannel(name) as unknown as Channel,
      isVisible: () => document.visibilityState === 'visible',
      onVisibility(f) {
        document.addEventListener('visibilitychange', f)
        return () => document.removeEventListener('visibilitychange', f)
      },
    },
  }
}
