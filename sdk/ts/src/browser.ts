import { Database } from './indexeddb.js'
import { memoryStore, type Seam, type Shared, type SharedStore, type Warning } from './store.js'
import { type Browser, type Channel, Tab } from './tabs/tab.js'

/** The parts of a browser that the store uses. Tests use parts of their own. */
export interface BrowserParts {
  readonly indexedDB?: IDBFactory | undefined
  /** undefined: the page has no Web Locks, for example because it has no TLS. */
  readonly browser?: Browser | undefined
}

/**
 * Makes a store in the database of the browser, for one user of one tenant on this origin. All tabs with the
 * same account share the store and one connection. `account` names the account, for example 'acme/alice';
 * several accounts can be used side by side.
 *
 * If the browser offers no database (as in some private windows) or no locks (as on a page without TLS), the
 * data is kept in memory and each tab has its own connection. `Status.warnings` says so.
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
        } catch (why) { // the database exists but cannot be opened
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

/** Makes the part of a client that shares nothing, and keeps its data in memory. */
function alone(seam: Seam, warnings: readonly Warning[]): Shared {
  queueMicrotask(() => {
    seam.warn(warnings)
    seam.lead()
  })
  return { store: memoryStore(), transport: seam.transport, running: () => {}, settled: () => {} }
}

/** Returns the parts of the present browser. */
export function here(): BrowserParts {
  const { navigator, document, BroadcastChannel } = globalThis as Partial<typeof globalThis>
  let indexedDB: IDBFactory | undefined
  try {
    indexedDB = globalThis.indexedDB
  } catch {
    // In a sandboxed page even the access throws.
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
