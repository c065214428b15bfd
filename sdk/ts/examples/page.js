// A chat with one user in a plain page. The address has #url=…&token=…&account=…&peer=…
import { browserStore, Client } from '@petrel-im/sdk'

const at = new URLSearchParams(location.hash.slice(1))
const peer = at.get('peer')
const client = new Client({ url: at.get('url'), token: at.get('token'), deviceKind: 'web', store: browserStore(at.get('account')) })
client.connect()

document.body.innerHTML = '<p role="status"></p><ol></ol><form><input aria-label="message" required><button>Send</button></form>'
const [status, list, form, input] = ['p', 'ol', 'form', 'input'].map((name) => document.querySelector(name))

client.subscribe((change) => {
  const conv = client.direct(peer)
  if (change.status) status.textContent = client.status().state
  list.replaceChildren(
    ...client.messages(conv).filter((m) => m.text !== undefined).map((m) => line(`${m.from}: ${m.text}`)),
    ...client.pendingTo(peer).map((m) => line(`${m.draft.text} (${m.state})`)),
  )
  client.markRead(conv, client.conversation(conv)?.have ?? 0)
})

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
