import { Auth, browserStore, browserTokens, Client, SavedTokens } from '@petrel-im/sdk'

const { server, user } = document.documentElement.dataset
const device = localStorage.getItem('device') ?? crypto.randomUUID()
localStorage.setItem('device', device)

// The tokens are kept in this browser and refreshed. The back end is asked when there are none.
const saved = new SavedTokens(new Auth(server), browserTokens(`shop/${user}`), {
  login: async () => {
    const answer = await fetch('/chat-token', { method: 'POST', body: JSON.stringify({ device: { id: device, kind: 'web' } }) })
    if (answer.status === 401) return undefined // nobody is logged in
    if (!answer.ok) throw new Error(`/chat-token answers ${answer.status}`)
    return answer.json()
  },
})

export const client = new Client({ url: server, token: saved.token, deviceKind: 'web', store: browserStore(`shop/${user}`) })
