import { Client } from '@petrel-im/sdk'
import WebSocket from 'ws'
const client = new Client({ url: process.argv[2], token: process.env.PETREL_TOKEN, webSocket: WebSocket })
await client.while(async () => {
  const { seq } = await (await client.send({ user: 'bob', text: 'hello' })).wait()
  console.log('stored with seq', seq)
})
