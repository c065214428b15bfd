// The same chat with React. The address has #url=…&token=…&account=…&peer=…
import { browserStore, Client } from '@petrel-im/sdk'
import { PetrelProvider, useClient, useConversations, useMessages, usePending, useStatus } from '@petrel-im/sdk/react'
import { StrictMode, useState } from 'react'
import { createRoot } from 'react-dom/client'

const at = new URLSearchParams(location.hash.slice(1))
const peer = at.get('peer')
const client = new Client({ url: at.get('url'), token: at.get('token'), deviceKind: 'web', store: browserStore(at.get('account')) })

function Chat() {
  const { state } = useStatus()
  const conv = useConversations().find((v) => v.peer === peer)?.id ?? ''
  return (
    <>
      <p role="status">{state}</p>
      <ol>
        {useMessages(conv).filter((m) => m.text !== undefined).map((m) => <li key={m.seq}>{m.from}: {m.text}</li>)}
        {usePending(conv).map((m) => <li key={m.id}>{m.draft.text} ({m.state})</li>)}
      </ol>
      <Composer />
    </>
  )
}

function Composer() {
  const client = useClient()
  const [text, setText] = useState('')
  const send = async (event) => {
    event.preventDefault()
    await client.send({ user: peer, text })
    setText('') // only now: a message that could not be kept is still there to be sent
  }
  return (
    <form onSubmit={send}>
      <input aria-label="message" required value={text} onChange={(event) => setText(event.target.value)} />
      <button>Send</button>
    </form>
  )
}

document.body.innerHTML = '<main></main>'
createRoot(document.querySelector('main')).render(<StrictMode><PetrelProvider client={client}><Chat /></PetrelProvider></StrictMode>)
