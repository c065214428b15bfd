// A back end sends for its users over HTTP: RATE messages a second for SECONDS, even if the server
// cannot keep up. The server answers each when it is durable. Afterwards one of the hundred users
// reads the messages for this user; missing ones count as lost.
//
//   k6 run -e PETREL_ADMIN_KEY=… -e RATE=500 -e SECONDS=30 bench/k6/send.js
import exec from 'k6/execution'
import { acked, ackTime, call, connect, delivered, lost, makeUsers, refused } from './petrel.js'

const rate = Number(__ENV.RATE || 500)
const seconds = Number(__ENV.SECONDS || 30)
const users = 100

export const options = {
  scenarios: {
    calls: { executor: 'constant-arrival-rate', rate, timeUnit: '1s', duration: `${seconds}s`, preAllocatedVUs: 50, maxVUs: 1000, gracefulStop: '10s', exec: 'send' },
    receiver: { executor: 'per-vu-iterations', vus: 1, iterations: 1, startTime: `${seconds + 11}s`, exec: 'receive' },
  },
  thresholds: {
    petrel_refused: ['count==0'],
    petrel_lost: ['count==0'],
    petrel_acked: ['count>0'],
    petrel_delivered: ['count>0'],
    dropped_iterations: ['count==0'], // else the rate was not that rate
  },
}

export const setup = () => ({ all: makeUsers(users) })

export function send({ all }) {
  const n = exec.scenario.iterationInTest
  const [from, to] = [all[n % users].user, all[(n + 1) % users].user]
  const began = Date.now()
  const r = call('SendAs', { from, send: { user: to, clientMsgId: `call-${n}`, text: `message ${n} of a back end` } })
  if (!r.ok || !r.answer.seq) {
    refused.add(1)
    return
  }
  acked.add(1)
  ackTime.add(Date.now() - began)
}

/** The second user reads what the first one has sent: what call 0, 100, 200 … made. */
export function receive({ all }) {
  const due = Math.floor((rate * seconds) / users) // at least: k6 makes some calls more or fewer at the end
  let got = 0
  const client = connect(all[1], {
    greeted() {},
    message(m) {
      if (m.from !== all[0].user) return
      got++
      delivered.add(1)
    },
  })
  setTimeout(() => {
    if (got < due - 1) lost.add(due - got)
    client.close()
  }, 3000)
}
