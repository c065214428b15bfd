import { Client } from '@petrel-im/sdk'
import { fileStore } from '@petrel-im/sdk/node'
import WebSocket from 'ws'
const [, , url, file] = process.argv
const client = new Client({ url, token: process.env.PETREL_TOKEN, webSocket: WebSocket, store: fileStore(file) })
await client.while(async () => {
  for await (const m of client.incoming()) {
    await client.send({ conv: m.conv, id: `echo-${m.conv}-${m.seq}`, text: `You said: ${m.text ?? '…'}` })
  }
})
