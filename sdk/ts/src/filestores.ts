// A store and a token storage in files, for Node.
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { type FileHandle, mkdir, open, readFile, realpath, rename, rm, truncate } from 'node:fs/promises'
import { createConnection, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { crc32 } from 'node:zlib'
import { inTurn, type TokenStorage, type Tokens } from './auth.js'
import type { Row } from './core/index.js'
import { failure } from './core/index.js'
import { PetrelError } from './errors.js'
import { put, type Store } from './store.js'

const rewriteBytes = 1 << 20 // the log is not rewritten before it has this size

/**
 * Makes a store in one file, which only its owner can read. The file is a log: each line has the rows of one write,
 * and a checksum. After a crash in the middle of a write it opens with all complete writes. It is rewritten when
 * most of it is outdated. Only one process of a machine can have it open at a time.
 */
export function fileStore(file: string): Store {
  const rows = new Map<string, unknown>()
  const turn = inTurn()
  let log: FileHandle | undefined
  let held: Server | undefined // the lock
  let wrong: PetrelError | undefined // set when it is unknown what the file contains
  let bytes = 0 // of the log
  let compact = 0 // bytes of the log after it was loaded or last rewritten

  const rewrite = async (): Promise<void> => {
    const text = [...rows].map((row) => line([row])).join('')
    await replace(file, text)
    await log?.close()
    log = await open(file, 'a', 0o600)
    bytes = compact = Buffer.byteLength(text)
  }
  const close = async (): Promise<void> => {
    if (!log) return
    const closing = log.close()
    log = undefined
    await closing.finally(() => held?.close())
  }
  /** Waits for a step. If it fails, sets wrong, so that nothing more is written. */
  const orWrong = async (step: Promise<void>): Promise<void> => {
    try {
      await step
    } catch (why) {
      wrong = new PetrelError(failure('store', `write ${file}: ${String(why)}`), { cause: why })
      throw wrong
    }
  }
  return {
    load: () => turn(async () => {
      await mkdir(path.dirname(file), { recursive: true })
      held = await lock(file)
      try {
        const text = await readFile(file).catch(missing)
        rows.clear()
        bytes = text ? apply(text, rows) : 0
        if (text && bytes < text.length) await truncate(file, bytes)
        compact = bytes
        log = await open(file, 'a', 0o600)
        wrong = undefined
      } catch (why) {
        held.close()
        throw why
      }
      return Array.from(rows, ([key, value]) => ({ key, value }))
    }),
    write: (change, durable) => turn(async () => {
      if (!log) throw new PetrelError(failure('store', `${file} is not open`))
      if (wrong) throw wrong
      if (change.length > 0) {
        const record = Buffer.from(line(change.map(({ key, value }) => [key, value])))
        try {
          await log.appendFile(record)
        } catch (why) { // a part of the line may be in the file, and hide all later lines
          await orWrong(log.truncate(bytes))
          throw why
        }
        put(rows, change)
        bytes += record.length
        if (bytes > rewriteBytes && bytes > 2 * compact) await orWrong(rewrite())
      }
      if (durable) await orWrong(log.datasync())
    }),
    close: () => turn(close),
    wipe: () => turn(async () => {
      await close()
      rows.clear()
      await rm(file, { force: true })
    }),
  }
}

type Entry = readonly [key: string, value: unknown]

/** Returns the line of one write: a checksum and the rows. null removes a row. */
function line(entries: readonly Entry[]): string {
  const json = JSON.stringify(entries, (_, value: unknown) => value instanceof Uint8Array ? { $bytes: Buffer.from(value).toString('base64') } : value)
  return `${crc32(json).toString(16).padStart(8, '0')} ${json}\n`
}

/** Applies the lines up to the first invalid one, and returns their length in bytes. */
function apply(text: Buffer, rows: Map<string, unknown>): number {
  let at = 0
  for (let end = text.indexOf(10); end >= 0; end = text.indexOf(10, at)) {
    const json = text.toString('utf8', at + 9, end)
    if (parseInt(text.toString('latin1', at, at + 8), 16) !== crc32(json)) break
    const entries = JSON.parse(json, (_, value: unknown) => isBytes(value) ? new Uint8Array(Buffer.from(value.$bytes, 'base64')) : value) as readonly Entry[]
    put(rows, entries.map(([key, value]) => ({ key, value }) as Row))
    at = end + 1
  }
  return at
}

function isBytes(value: unknown): value is { readonly $bytes: string } {
  return typeof value === 'object' && value !== null && '$bytes' in value && typeof value.$bytes === 'string'
}

/**
 * Locks the file for this process. The lock is a listening socket: it ends with the process, however that ends, and
 * no other process can hold it by chance, as with a process id in a file. Linux and Windows have socket names that
 * are no files. Elsewhere a killed process leaves a file behind, which is removed when nobody answers at it.
 */
async function lock(file: string): Promise<Server> {
  const real = path.join(await realpath(path.dirname(file)), path.basename(file))
  const name = `petrel-${createHash('sha256').update(await realpath(file).catch(() => real)).digest('hex').slice(0, 32)}`
  const isFile = !['linux', 'win32'].includes(process.platform)
  const address = process.platform === 'linux' ? `\0${name}` : isFile ? path.join(tmpdir(), name) : `\\\\.\\pipe\\${name}`
  for (;;) {
    const server = createServer((socket) => socket.destroy())
    try {
      await once(server.listen(address), 'listening')
      server.unref()
      return server
    } catch (why) {
      if ((why as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw why
    }
    if (!isFile || await answers(address)) throw new PetrelError(failure('store', `${file} is in use by another client`))
    await rm(address, { force: true })
  }
}

/** Whether a process listens at a socket. */
async function answers(address: string): Promise<boolean> {
  const socket = createConnection(address)
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** Replaces the content of a file, durably and completely or not at all. */
async function replace(file: string, text: string): Promise<void> {
  const made = await open(`${file}.new`, 'w', 0o600)
  try {
    await made.writeFile(text)
    await made.sync()
  } finally {
    await made.close()
  }
  await rename(`${file}.new`, file)
  const folder = await open(path.dirname(file), 'r')
  await folder.sync().finally(() => folder.close())
}

function missing(why: NodeJS.ErrnoException): undefined {
  if (why.code !== 'ENOENT') throw why
}

/** Keeps tokens in a file that only its owner can read. Only one process may use it at a time. */
export function fileTokens(file: string): TokenStorage {
  return {
    read: async () => {
      const text = await readFile(file, 'utf8').catch(missing)
      return text === undefined ? undefined : JSON.parse(text) as Tokens
    },
    write: (tokens) => tokens ? replace(file, JSON.stringify(tokens, undefined, 2) + '\n') : rm(file, { force: true }),
    alone: inTurn(),
  }
}
