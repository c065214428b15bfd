// A page of somebody else with <petrel-chat> in it, for pictures.
import { once } from 'node:events'
import { createServer, type Server as HttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Serves the page of a shop. */
export class Shop {
  readonly origin: string // which the server of the chat has to allow
  readonly #http: HttpServer
  readonly #pages = new Map<string, string>()

  private constructor(http: HttpServer) {
    this.#http = http
    this.origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
    http.on('request', (req, res) => {
      const page = this.#pages.get(req.url ?? '')
      res.setHeader('Content-Type', 'text/html; charset=utf-8')
      res.writeHead(page === undefined ? 404 : 200).end(page)
    })
  }

  static async open(): Promise<Shop> {
    const http = createServer().listen(0, '127.0.0.1')
    await once(http, 'listening')
    return new Shop(http)
  }

  /** The address of a page with an element that has these attributes, from the server of the chat. */
  page(chat: string, attributes: string, lang: string): string {
    const path = `/${this.#pages.size}`
    this.#pages.set(path, `<!doctype html><html lang="${lang}"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>A shop</title>
<style>
  :root { color-scheme: light dark; font-family: Georgia, serif; }
  body { margin: 0; padding: 24px; display: grid; gap: 24px; grid-template-columns: minmax(0, 1fr); background: light-dark(#faf6ee, #221e18); }
  petrel-chat { width: auto; height: 560px; }
  @media (width >= 700px) { body { grid-template-columns: minmax(0, 1fr) minmax(340px, 55%); } }
</style>
<body><section><h1>Harbour Supplies</h1><p>Rope, paint and lamps for your boat. We answer in the chat from 8 to 18.</p></section>
<petrel-chat server="${chat}" ${attributes}></petrel-chat><script type="module" src="${chat}/embed/petrel-chat.js"></script></body></html>`)
    return this.origin + path
  }

  close(): void {
    this.#http.close()
  }
}
