import type { ClientFrameJson, ServerFrameJson } from '../src/wire/frames_gen.js'
import { usual } from './fake_server.js'

type MessageJson = NonNullable<NonNullable<ServerFrameJson['events']>['messages']>[number]

/** The group g1 of a server that keeps what is sent, and searches at most `searched` entries for an earlier attempt. Spec: P-4.7. */
export class FakeConversation {
  readonly log: MessageJson[] = []
  refuses = false // every send, for good
  readonly searched: number

  constructor(searched = 10) {
    this.searched = searched
  }

  get head(): number {
    return this.log.length
  }

  /** Somebody else writes. */
  write(n: number): void {
    for (let i = 0; i < n; i++) this.#append('bob', `b${this.head}`, 'x')
  }

  copies(id: string): number {
    return this.log.filter((m) => m.clientMsgId === id).length
  }

  answer(f: ClientFrameJson): ServerFrameJson | undefined {
    const head = String(this.head)
    if (f.send) {
      if (this.refuses) return { error: { code: 'not_member', message: 'you left', settled: true } }
      const after = Number(f.send.after ?? 0)
      const old = this.log.slice(after).find((m) => m.clientMsgId === f.send?.clientMsgId)
      if (this.head - after > this.searched) return { error: { code: 'behind', head } }
      const m = old ?? this.#append('alice', f.send.clientMsgId ?? '', f.send.text ?? '')
      return { ack: { conv: 'g1', seq: m.seq ?? '', counted: m.counted ?? '', timeMs: '1' } }
    }
    if (f.history) {
      const after = Number(f.history.after ?? 0)
      const messages = this.log.slice(after, Math.min(Number(f.history.before ?? this.head + 1) - 1, after + 50))
      return { history: { conv: 'g1', messages, head, firstSeq: '1', more: after + messages.length < this.head } }
    }
    if (f.sync) return { sync: { token: 'AQ==', convs: [{ conv: 'g1', kind: 'CONV_KIND_GROUP', head, counted: head, joined: '1', firstSeq: '1', newest: this.log.slice(-20) }] } }
    return usual(f)
  }

  #append(from: string, clientMsgId: string, text: string): MessageJson {
    const seq = String(this.head + 1)
    const m = { conv: 'g1', seq, from, clientMsgId, timeMs: '1', counted: seq, text }
    this.log.push(m)
    return m
  }
}
