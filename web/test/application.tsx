// An application in React of somebody else, with <petrel-chat> from the package: embed.test.ts builds it.
import '@petrel-im/chat'
import type {} from '../embed/react.js'
import { type ReactElement, useState } from 'react'
import { createRoot } from 'react-dom/client'

declare const SERVER: string
declare const TOKEN: string

function App(): ReactElement {
  const [peer, setPeer] = useState('frank')
  const [asked, setAsked] = useState(0)
  const [sent, setSent] = useState(0)
  const [, setTimes] = useState(0)
  Object.assign(globalThis, { draw: () => setTimes((n) => n + 1) })
  const token = (): string => {
    setAsked((n) => n + 1)
    return TOKEN
  }
  return (
    <>
      <button onClick={() => setPeer('dave')}>dave</button>
      <output>{asked}</output>
      <p>newest: {sent}</p>
      <petrel-chat server={SERVER} user="bob" peer={peer} token={token} onpetrel-sent={({ detail }) => setSent(detail.seq)} />
    </>
  )
}

createRoot(document.querySelector('#app') as Element).render(<App />)
