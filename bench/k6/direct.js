// Pairs of users write to each other over WebSocket. For SECONDS, each user sends RATE messages a
// second, even if the server cannot keep up, and has to get all messages of the other user once.
//
//   k6 run -e PETREL_ADMIN_KEY=… -e PAIRS=50 -e RATE=10 -e SECONDS=30 bench/k6/direct.js
import exec from 'k6/execution'
import { clean, connect, delivered, deliveryTime, lost, makeUsers } from './petrel.js'

const pairs = Number(__ENV.PAIRS || 50)
const rate = Number(__ENV.RATE || 10)
const messages = Math.ceil(Number(__ENV.SECONDS || 30) * rate)
const patience = 30_000 // ms after the last send

export const options = {
  scenarios: { pairs: { executor: 'per-vu-iterations', vus: 2 * pairs, iterations: 1, maxDuration: '1h' } },
  thresholds: { ...clean(2 * pairs * messages), petrel_acked: [`count==${2 * pairs * messages}`] },
}

export const setup = () => ({ users: makeUsers(2 * pairs), begin: Date.now() + 2000 + 20 * pairs })

export default function ({ users, begin }) {
  const n = exec.vu.idInTest - 1
  const peer = users[n ^ 1].user
  let sent = 0
  let answered = 0
  let got = 0
  let late

  const client = connect(users[n], {
    greeted() {
      // Sends are due at fixed moments, and delivery times count from these, so they show a stall.
      const send = () => {
        const now = Date.now()
        for (; sent < messages && begin + (sent * 1000) / rate <= now; sent++) {
          client.send({ user: peer }, `${n}-${sent}`, `${begin + (sent * 1000) / rate}`, () => {
            answered++
            end()
          })
        }
        if (sent < messages) setTimeout(send, Math.max(1, begin + (sent * 1000) / rate - Date.now()))
        else late = setTimeout(giveUp, patience)
      }
      send()
    },
    message(m) {
      if (m.from !== peer) return
      got++
      delivered.add(1)
      deliveryTime.add(Date.now() - Number(m.text))
      end()
    },
  })
  const end = () => {
    if (answered < messages || got < messages) return
    clearTimeout(late)
    client.close()
  }
  const giveUp = () => {
    lost.add(messages - got)
    client.close()
  }
}
