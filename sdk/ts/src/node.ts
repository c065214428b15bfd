// What Node has and browsers have not: files.
import { type FileHandle, mkdir, open, readFile, rename, rm, truncate } from 'node:fs/promises'
import path from 'node:path'
import { crc32 } from 'node:zlib'
import { inTurn, type TokenStorage, type Tokens } from './auth.js'
import type { Row } from './core/index.js'
import { failure } from './core/index.js'
import { PetrelError } from './errors.js'
import { put, type Store } from './store.js'

const rewriteBytes = 1 << 20 // a smaller log is not rewritten

/**
 * A store in one file, which only its owner can read. It is a log: each line is what one
 * write has put, with a checksum. If a crash has cut it off, it opens with all writes that
 * were complete. It is rewritten when most of it is outdated. One process at a time can have
 * it open.
 */
export function fileStore(file: string): Store {
  const rows = new Map<string, unknown>()
  const turn = inTurn()
  let log: FileHandle | undefined
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
    await log.close()
    log = undefined
    await rm(`${file}.lock`, { force: true })
  }
  return {
    load: () => turn(async () => {
      await mkdir(path.dirname(file), { recursive: true })
      await lock(file)
      const text = await readFile(file).catch(missing)
      rows.clear()
      bytes = text ? apply(text, rows) : 0
      if (text && bytes < text.length) await truncate(file, bytes)
      compact = bytes
      log = await open(file, 'a', 0o600)
      return Array.from(rows, ([key, value]) => ({ key, value }))
    }),
    write: (change, durable) => turn(async () => {
      if (!log) throw new PetrelError(failure('store', `${file} is not open`))
      if (change.length > 0) {
        const text = line(change.map(({ key, value }) => [key, value]))
        await log.appendFile(text)
        put(rows, change)
        bytes += Buffer.byteLength(text)
        if (bytes > rewriteBytes && bytes > 2 * compact) await rewrite()
      }
      if (durable) await log.datasync()
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

/** One write as a line: a checksum, and what it has put; null removes. */
function line(entries: readonly Entry[]): string {
  const json = JSON.stringify(entries, (_, value: unknown) => value instanceof Uint8Array ? { $bytes: Buffer.from(value).toString('base64') } : value)
  return `${crc32(json).toString(16).padStart(8, '0')} ${json}\n`
}

/** Applies the lines that are whole, and returns how many bytes they have. */
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

/** Takes the file for this process: a file beside it has the number of the process. */
async function lock(file: string): Promise<void> {
  const name = `${file}.lock`
  for (;;) {
    try {
      const held = await open(name, 'wx', 0o600)
      await held.writeFile(String(process.pid))
      await held.close()
      return
    } catch (why) {
      if ((why as NodeJS.ErrnoException).code !== 'EEXIST') throw why
    }
    const pid = Number(await readFile(name, 'utf8').catch(() => ''))
    if (pid === process.pid || isAlive(pid)) throw new PetrelError(failure('store', `${file} is in use by process ${pid}`))
    await rm(name, { force: true })
  }
}

function isAlive(pid: number): boolean {
  if (!(pid > 0)) return false
  try {
    process.kill(pid, 0)
    return true
  } catch (why) {
    return (why as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Puts a text in the place of a file, durable and whole or not at all. */
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
