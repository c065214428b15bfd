import { failure, type Row, type StoredRow } from './core/index.js'
import { PetrelError } from './errors.js'

const table = 'rows'
/**
 * The key of the term: a number that increases when another tab begins to lead. Only the tab of the newest term may
 * write the shared rows.
 */
const termKey = 'term'
/** The prefix of the keys of messages to be sent. */
export const outgoingPrefix = 'o/'

const removed = 'the data of this account was removed'

/** Thrown when another tab has begun a term: nothing was written. */
export class Fenced extends Error {}

/**
 * The rows of one account in a database of the browser. A connection to the database may die with the network
 * process or while the page is suspended, above all in Safari. Then it is opened again and the transaction is
 * repeated, which does no harm: it puts the same rows.
 */
export class Database {
  readonly name: string
  readonly #factory: IDBFactory
  #db: Promise<IDBDatabase> | undefined
  #gone: string | undefined // why the database must not be opened any more

  constructor(name: string, factory: IDBFactory) {
    this.name = name
    this.#factory = factory
  }

  /** Returns all rows except the term. */
  load(): Promise<readonly StoredRow[]> {
    return this.#transact('readonly', false, read)
  }

  /**
   * Writes all rows or none. With term it throws Fenced if a newer term has begun. With all it first makes the
   * stored rows equal to all, except for those of the outbox.
   */
  write(change: readonly Row[], durable: boolean, term?: number, all?: ReadonlyMap<string, unknown>): Promise<void> {
    return this.#transact('readwrite', durable, async (rows) => {
      if (term !== undefined && await answer(rows.get(termKey)) !== term) throw new Fenced()
      if (all) {
        const stays = (key: string): boolean => key === termKey || key.startsWith(outgoingPrefix)
        for (const key of await answer(rows.getAllKeys())) if (!stays(String(key)) && !all.has(String(key))) rows.delete(key)
        for (const [key, value] of all) if (!stays(key)) rows.put(value, key)
      }
      put(rows, change)
    })
  }

  /** Begins a new term, which ends the former one. It returns its number and, if wanted, all rows. */
  begin(wanted: boolean): Promise<{ readonly term: number; readonly left: readonly StoredRow[] }> {
    return this.#transact('readwrite', false, async (rows) => {
      const term = (await answer(rows.get(termKey)) as number | undefined ?? 0) + 1
      rows.put(term, termKey)
      return { term, left: wanted ? await read(rows) : [] }
    })
  }

  async close(): Promise<void> {
    const db = await this.#db?.catch(() => undefined)
    this.#db = undefined
    db?.close()
  }

  /**
   * Keeps this tab from opening the database again, because another tab removes it: opening would create a new one.
   */
  leave(): void {
    this.#gone = removed
  }

  /**
   * Removes the rows, and then the database. Tabs that have it open are told to close it. A frozen tab does that
   * only when it thaws, so the rows go first.
   */
  async wipe(): Promise<void> {
    this.#gone = undefined // even if another tab has removed it
    await this.#transact('readwrite', true, async (rows) => rows.clear()).catch(() => {}) // the database is removed in any case
    this.leave()
    await this.close()
    await new Promise<void>((resolve, reject) => {
      const request = this.#factory.deleteDatabase(this.name)
      request.onsuccess = request.onblocked = () => resolve()
      request.onerror = () => reject(storeError(request.error))
    })
  }

  async #transact<T>(mode: IDBTransactionMode, durable: boolean, f: (rows: IDBObjectStore) => Promise<T>): Promise<T> {
    for (let again = true; ; again = false) {
      try {
        return await this.#once(mode, durable, f)
      } catch (why) {
        if (!again || !isDead(why)) throw why instanceof Fenced ? why : storeError(why)
        await this.close()
      }
    }
  }

  async #once<T>(mode: IDBTransactionMode, durable: boolean, f: (rows: IDBObjectStore) => Promise<T>): Promise<T> {
    this.#db ??= this.#open()
    let db: IDBDatabase
    try {
      db = await this.#db
    } catch (why) {
      this.#db = undefined
      throw why
    }
    const tx = db.transaction(table, mode, { durability: durable ? 'strict' : 'default' })
    const done = new Promise<void>((resolve, reject) => {
      tx.oncomplete = () => resolve()
      tx.onabort = () => reject(tx.error ?? new DOMException('the transaction was aborted', 'AbortError'))
    })
    try {
      const result = await f(tx.objectStore(table))
      await done
      return result
    } catch (why) {
      done.catch(() => {}) // why has the reason
      try {
        tx.abort()
      } catch {
        // It is over already.
      }
      throw why
    }
  }

  async #open(): Promise<IDBDatabase> {
    if (this.#gone !== undefined) throw new Error(this.#gone)
    const request = this.#factory.open(this.name, 1)
    request.onupgradeneeded = () => request.result.createObjectStore(table)
    const db = await answer(request)
    db.onclose = () => { // by the browser
      this.#db = undefined
    }
    db.onversionchange = ({ newVersion }) => {
      this.#gone = newVersion === null ? removed : 'a newer version has taken the data'
      db.close()
      this.#db = undefined
    }
    return db
  }
}

async function read(rows: IDBObjectStore): Promise<readonly StoredRow[]> {
  const [keys, values] = await Promise.all([answer(rows.getAllKeys()), answer(rows.getAll())])
  return keys.map((key, i) => ({ key: String(key), value: values[i] as unknown })).filter(({ key }) => key !== termKey)
}

function put(rows: IDBObjectStore, change: readonly Row[]): void {
  for (const { key, value } of change) {
    if (value === null) rows.delete(key)
    else rows.put(value, key)
  }
}

function answer<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result)
    request.onerror = () => reject(request.error as DOMException)
  })
}

/** Whether the connection to the database has died, so that a repeat may work. */
function isDead(why: unknown): boolean {
  return why instanceof DOMException && ['InvalidStateError', 'AbortError', 'UnknownError'].includes(why.name)
}

function storeError(why: unknown): PetrelError {
  const full = why instanceof DOMException && why.name === 'QuotaExceededError'
  return new PetrelError(failure('store', full ? 'there is no room left' : String(why)), { cause: why })
}
