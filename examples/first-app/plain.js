import { client } from './client.js'

const peer = 'support'
const [status, list, form, input] = ['p', 'ol', 'form', 'input'].map((name) => document.querySelector(name))

client.connect()
client.subscribe(() => {
  status.textContent = client.status().state
  list.replaceChildren(
    ...client.messages(client.direct(peer)).filter((m) => m.text !== undefined).map((m) => line(`${m.from}: ${m.text}`)),
    ...client.pendingTo(peer).map((m) => line(`${m.draft.text} (${m.state})`)),
  )
  read()
})

// A message is read when somebody looks at the page.
function read() {
  const conv = client.direct(peer)
  if (document.visibilityState === 'visible' && document.hasFocus()) client.markRead(conv, client.conversation(conv)?.have ?? 0)
}
addEventListener('focus', read)
document.addEventListener('visibilitychange', read)

form.addEventListener('submit', async (event) => {
  event.preventDefault()
  await client.send({ user: peer, text: input.value })
  input.value = '' // only now: a message that could not be kept is still there to be sent
})

function line(text) {
  const li = document.createElement('li')
  li.textContent = text
  return li
}
