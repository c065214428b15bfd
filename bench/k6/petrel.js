// Functions that the scripts of this folder share: calls of the HTTP API, and a small client that
// speaks JSON over WebSocket, written from proto/README.md. The client reads missed messages from
// the history, as every client has to.
import { WebSocket } from 'k6/experimental/websockets'
import http from 'k6/http'
import { Counter, Trend } from 'k6/metrics'

export const url = __ENV.PETREL_URL || 'http://127.0.0.1:8080'
const key = __ENV.PETREL_ADMIN_KEY

export const acked = new Counter('petrel_acked') // messages that are durable
export const delivered = new Counter('petrel_delivered')
export const lost = new Counter('petrel_lost') // messages that were due and did not come
export const duplicate = new Counter('petrel_duplicate') // messages that came twice
export const refused = new Counter('petrel_refused') // error frames, and calls without a good answer
export const broken = new Counter('petrel_broken') // connections that ended before the end
export const ackTime = new Trend('petrel_ack_time', true) // from a send to its ack
export const deliveryTime = new Trend('petrel_delivery_time', true) // from a send to its receiver
export const loginTime = new Trend('petrel_login_time', true) // from the dial to the last page of the sync

/** Thresholds of a run in which nothing went wrong. due: how many deliveries there must be. */
export function clean(due) {
  const none = ['count==0']
  return { petrel_lost: none, petrel_duplicate: none, petrel_refused: none, petrel_broken: none, petrel_delivered: [`count==${due}`] }
}

/** Calls a method of the admin API, with JSON. */
export function call(method, body) {
  const r = http.post(`${url}/petrel.v1.AdminService/${method}`, JSON.stringify(body), {
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    tags: { name: method },
  })
  return { ok: r.status === 200, status: r.status, body: r.body, answer: r.status === 200 ? r.json() : null }
}

/** Makes users and returns [{user, token}]. */
export function makeUsers(n) {
  if (!key) throw new Error('PETREL_ADMIN_KEY is not set')
  const name = `k6-${Date.now().toString(36)}-`
  const made = []
  for (let from = 0; from < n; from += 1000) {
    const users = Array.from({ length: Math.min(1000, n - from) }, (_, i) => name + (from + i))
    const r = call('CreateUsers', { users })
    if (!r.ok) throw new Error(`make users: ${r.status} ${r.body}`)
    made.push(...r.answer.tokens.map((t) => ({ user: t.user, token: t.token })))
  }
  return made
}

/**
 * Connects a user. greeted() is called when the device has synced, message(m) for each new
 * entry of a conversation, in its order, each once. The client ends by close().
 */
export function connect({ user, token }, { greeted, message }) {
  const began = Date.now()
  const ws = new WebSocket(`${url.replace(/^http/, 'ws')}/v1/ws`)
  const waiting = {} // by frame id
  const have = {} // the newest entry, by conversation
  const head = {}
  const reading = {}
  let ids = 0
  let done = false
  let inbox

  const ask = (body, answer) => {
    const id = String(++ids)
    waiting[id] = answer
    ws.send(JSON.stringify({ id, ...body }))
  }
  const take = (m, pushed) => {
    const [seq, last] = [Number(m.seq), have[m.conv] || 0]
    head[m.conv] = Math.max(head[m.conv] || 0, seq)
    if (seq === last + 1) {
      have[m.conv] = seq
      message(m)
    } else if (pushed && seq > last) repair(m.conv)
    else if (pushed && !reading[m.conv]) duplicate.add(1)
  }
  const repair = (conv) => {
    if (reading[conv]) return
    reading[conv] = true
    ask({ history: { conv, after: String(have[conv] || 0) } }, (f) => {
      for (const m of f.history?.messages ?? []) take(m, false)
      reading[conv] = false
      if (f.history && (have[conv] || 0) < head[conv]) repair(conv)
    })
  }
  const sync = (from, then) =>
    ask({ sync: from ? { token: from } : {} }, (f) => {
      for (const c of f.sync?.convs ?? []) {
        head[c.conv] = Math.max(head[c.conv] || 0, Number(c.head || 0))
        if (c.conv !== inbox && (have[c.conv] || 0) < head[c.conv]) repair(c.conv)
      }
      if (f.sync?.more) sync(f.sync.token, then)
      else if (f.sync) then()
    })

  ws.onopen = () =>
    ask({ hello: { versionMin: 1, versionMax: 1, token, device: user, client: 'k6' } }, (f) => {
      inbox = f.welcome?.inbox
      sync(null, () => {
        loginTime.add(Date.now() - began)
        greeted()
      })
    })
  ws.onmessage = (e) => {
    const f = JSON.parse(e.data)
    if (f.error) {
      refused.add(1, { code: f.error.code })
      console.warn(`${user}: ${f.error.code}: ${f.error.message}`)
    }
    if (f.ping) ws.send(JSON.stringify({ id: f.id, pong: {} }))
    if (f.lagged) sync(null, () => {})
    for (const m of f.events?.messages ?? []) if (m.conv !== inbox) take(m, true)
    const answer = waiting[f.id]
    if (!answer) return
    delete waiting[f.id]
    answer(f)
  }
  ws.onclose = () => {
    if (!done) broken.add(1)
  }

  return {
    /** Sends a text; sent() is called when it is durable. */
    send(to, clientMsgId, text, sent) {
      const at = Date.now()
      ask({ send: { ...to, clientMsgId, text } }, (f) => {
        if (!f.ack) return
        acked.add(1)
        ackTime.add(Date.now() - at)
        sent(f.ack)
      })
    },
    close() {
      done = true
      ws.close()
    },
  }
}
