// A proxy before a server, which changes what the server answers.
import { once } from 'node:events'
import { createServer, request, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'

/** Passes everything on to a server; `change` gets the text of each answer at a path, and gives the one that is sent. `cut` ends all WebSockets. */
export async function proxy(to: string, path: string, change: (text: string) => string): Promise<{ readonly url: string; readonly cut: () => void; readonly stop: () => void }> {
  const { hostname, port } = new URL(to)
  const cuts = new Set<() => void>()
  const server: Server = createServer((asked, answer) => {
    const at = { hostname, port, path: asked.url, method: asked.method, headers: { ...asked.headers, 'accept-encoding': 'identity' } }
    asked.pipe(request(at, (got) => {
      const headers = { ...got.headers }
      for (const name of ['content-length', 'etag']) delete headers[name]
      if (asked.url !== path) {
        answer.writeHead(got.statusCode ?? 500, got.headers)
        got.pipe(answer)
        return
      }
      const parts: Buffer[] = []
      got.on('data', (b: Buffer) => parts.push(b)).on('end', () => answer.writeHead(got.statusCode ?? 500, headers).end(change(Buffer.concat(parts).toString())))
    }))
  })
  server.on('upgrade', (asked, socket, head) => {
    const up = connect(Number(port), hostname, () => {
      const lines = asked.rawHeaders.map((text, i) => i % 2 === 0 ? `${text}: ` : `${text}\r\n`)
      up.write(`${asked.method} ${asked.url} HTTP/1.1\r\n${lines.join('')}\r\n`)
      up.write(head)
      up.pipe(socket).pipe(up)
    })
    const cut = (): void => [up, socket].forEach((s) => s.destroy())
    cuts.add(cut)
    for (const s of [up, socket]) s.on('error', cut).on('close', cut)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut: () => cuts.forEach((cut) => cut()),
    stop: () => {
      cuts.forEach((cut) => cut())
      server.close()
      server.closeAllConnections()
    },
  }
}
