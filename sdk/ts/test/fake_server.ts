// A server for tests of the client, in the same process: it answers what it is told to.
import type { Connection, ConnectionEvents, Transport } from '../src/index.js'
import type { ClientFrameJson, ServerFrameJson } from '../src/wire/frames_gen.js'

export class FakeServer implements Transport {
  readonly speaks = ['ws', 'wss', 'http', 'https']
  readonly got: ClientFrameJson[] = []
  answer: (frame: ClientFrameJson) => ServerFrameJson | undefined = usual
  #on: ConnectionEvents | undefined

  connect(_: string, on: ConnectionEvents): Connection {
    this.#on = on
    queueMicrotask(() => on.opened())
    return {
      send: (data) => {
        const frame = JSON.parse(data as string) as ClientFrameJson
        this.got.push(frame)
        const answer = this.answer(frame)
        if (answer) queueMicrotask(() => on.frame({ id: frame.id, ...answer }))
      },
      close: () => {},
    }
  }

  push(frame: ServerFrameJson): void {
    this.#on?.frame(frame)
  }

  drop(): void {
    this.#on?.closed({ kind: 'link', code: '', message: 'cut', hint: '', settled: false, retryable: false, retryAfterMs: 0, requestId: '', head: 0 })
  }
}

/** The answers of a server that has one conversation, g1, with one message. */
export function usual(frame: ClientFrameJson): ServerFrameJson | undefined {
  if (frame.hello) {
    return {
      welcome: {
        version: 1, user: 'alice', inbox: 'inbox', historyId: 'h1', heartbeatMs: 30_000, window: { sends: 64, bytes: 262_144 },
        limits: { frameBytes: 65_536, bodyBytes: 8192, historyMessages: 50, openRequests: 16 },
        capabilities: ['edit', 'cursor', 'focus', 'newest', 'call', 'rel', 'signal', 'presence', 'notes', 'personal', 'mentions'],
      },
    }
  }
  if (frame.sync) {
    const newest = [{ conv: 'g1', seq: '1', from: 'bob', clientMsgId: 'b1', timeMs: '1', counted: '1', text: 'first' }]
    return { sync: { token: 'AQ==', convs: [{ conv: 'g1', kind: 'CONV_KIND_GROUP', title: 'boat', head: '1', counted: '1', joined: '1', newest }] } }
  }
  if (frame.cursor) return { cursor: { conv: 'g1' } }
  return undefined
}
