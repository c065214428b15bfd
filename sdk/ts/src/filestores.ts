// Stores that need the files of Node.
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

const rewriteBytes = 1 << 20 // a smaller log is not rewritten

/**
 * A store in one file, which only its owner can read. It is a log: each line has the rows of one write, with a checksum. If a crash has cut it off,
 * it opens with all writes that were complete. It is rewritten when most of it is outdated. One process of a machine at a time can have it open.
 */
export function fileStore(file: string): Store {
  const rows = new Map<string, unknown>()
  const turn = inTurn()
  let log: FileHandle | undefined
  let held: Server | undefined // the lock
  let wrong: PetrelError | undefined // nobody knows what is in the file
  let bytes = 0 // of the log
  let compact = 0 // bytes that it had when it was last rewritten

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
  /** Runs a step after which, if it fails, nothing more may be written. */
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
        } catch (why) { // part of it may be there, and nothing can be read behind that
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

/** One write as a line: a checksum, and the rows; null removes. */
function line(entries: readonly Entry[]): string {
  const json = JSON.stringify(entries, (_, value: unknown) => value instanceof Uint8Array ? { $bytes: Buffer.from(value).toString('base64') } : value)
  return `${crc32(json).toString(16).padStart(8, '0')} ${json}\n`
}

/** Applies the complete lines, and returns their length in bytes. */
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
 * Locks the file for this process. The lock is a socket with a listener: it is gone with the process, however that ends, and no other process has its
 * number by chance. Linux and Windows have names for sockets that are no files. Elsewhere a killed process leaves a file, which is removed.
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

/** Whether somebody listens at a socket. */
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

/** Replaces a file by a text, durably, as a whole or not at all. */
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

/** Tokens in a file that only its owner can read. One process at a time may use it. */
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
