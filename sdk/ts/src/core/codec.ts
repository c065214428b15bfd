// Converts sent frames from the core's data to the JSON of the wire (P-1.4): numbers become texts where the
// wire has 64 bits, and a number that is no safe integer is refused instead of rounded. decode.ts converts
// received frames.
import type { ClientFrameJson } from '../wire/frames_gen.js'
import { toBase64 } from './base64.js'
import type { ClientBody, Send } from './frames.js'

export type { ClientFrameJson } from '../wire/frames_gen.js'

/** A frame in its wire form, and its length there. */
export interface Encoded {
  readonly data: string | Uint8Array
  readonly bytes: number
}

/** Encodes a frame as JSON. */
export function encodeJson(frame: ClientFrameJson): Encoded {
  const data = JSON.stringify(frame)
  return { data, bytes: utf8Length(data) }
}

/** Returns the length of a text in UTF-8, in bytes. */
export function utf8Length(text: string): number {
  let n = text.length
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x80) continue
    if (unit < 0x800) n += 1
    else if (unit >= 0xd800 && unit < 0xdc00) { // both halves of the pair together: 4 bytes
      n += 2
      i++
    } else n += 2
  }
  return n
}

/** Makes a frame of this client. It throws an Error if a number does not fit the wire. */
export function clientFrame(id: number, body: ClientBody): ClientFrameJson {
  return wire({ id, ...body }) as ClientFrameJson // the fields have the names of the wire
}

/** Returns the content of a send without its recipient: equal texts mean the same message. */
export function saying({ clientMsgId, type, text, data, edit, recall, rel }: Send): string {
  return JSON.stringify(wire({ clientMsgId, type, text, data, edit, recall, rel }))
}

const narrow = ['limit', 'newest', 'holdMs', 'versionMin', 'versionMax'] // numbers of 32 bits
const present = ['after', 'text', 'json'] // fields that are written even if they are 0 or empty

/** Converts a message to the wire, without fields that have their default. */
function wire(message: object): object {
  const out: Record<string, unknown> = {}
  for (const [key, v] of Object.entries(message)) {
    if (v === undefined || !present.includes(key) && (!v || Array.isArray(v) && v.length === 0)) continue
    out[key] = value(key, v)
  }
  return out
}

function value(key: string, v: unknown): unknown {
  if (typeof v === 'number') return narrow.includes(key) ? v : wide(v)
  if (ArrayBuffer.isView(v)) return toBase64(v as Uint8Array) // works across realms, too
  return typeof v === 'object' && v !== null && !Array.isArray(v) ? wire(v) : v // lists are of texts
}

/** Writes a 64-bit number as a text. It throws an Error if the number is not a safe integer of at least 0. */
function wide(n: number): string {
  if (!Number.isSafeInteger(n) || n < 0) throw new Error(`${n} has to be a whole number below 2^53`)
  return String(n)
}
