import { PetrelProvider, useClient, useConversations, useMessages, usePendingTo, useStatus } from '@petrel-im/sdk/react'
import { useState } from 'react'
import { createRoot } from 'react-dom/client'
import { client } from './client.js'

const peer = 'support'

function Chat() {
  const { state } = useStatus()
  const conv = useConversations().find((v) => v.peer === peer)?.id ?? ''
  return (
    <>
      <p role="status">{state}</p>
      <ol>
        {useMessages(conv).filter((m) => m.text !== undefined).map((m) => <li key={m.clientMsgId || m.seq}>{m.from}: {m.text}</li>)}
        {usePendingTo(peer).map((m) => <li key={m.id}>{m.draft.text} ({m.state})</li>)}
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
      <input aria-label="message" value={text} onChange={(event) => setText(event.target.value)} />
      <button>Send</button>
    </form>
  )
}

createRoot(document.querySelector('main')).render(<PetrelProvider client={client}><Chat /></PetrelProvider>)
