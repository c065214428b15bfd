import { PetrelProvider, useClient, useConversations, useMessages, usePendingTo, useStatus } from '@petrel-im/sdk/react'
import { useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { client } from './client.js'

const peer = 'support'

function Chat() {
  const client = useClient()
  const { state } = useStatus()
  const { id: conv = '', have = 0 } = useConversations().find((v) => v.peer === peer) ?? {}
  useEffect(() => {
    // A message is read when somebody looks at the page.
    const read = () => {
      if (document.visibilityState === 'visible' && document.hasFocus()) client.markRead(conv, have)
    }
    read()
    addEventListener('focus', read)
    document.addEventListener('visibilitychange', read)
    return () => {
      removeEventListener('focus', read)
      document.removeEventListener('visibilitychange', read)
    }
  }, [client, conv, have])
  return (
    <>
      <p role="status">{state}</p>
      <ol>
        {useMessages(conv).filter((m) => m.text !== undefined).map((m) => <li key={m.seq}>{m.from}: {m.text}</li>)}
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
      <input aria-label="message" required value={text} onChange={(event) => setText(event.target.value)} />
      <button>Send</button>
    </form>
  )
}

createRoot(document.querySelector('main')).render(<PetrelProvider client={client}><Chat /></PetrelProvider>)
