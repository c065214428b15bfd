// The back end of a shop whose customers chat: node server.mjs
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import path from 'node:path'

const petrel = process.env.PETREL_SERVER ?? 'http://127.0.0.1:8080'
const key = readFileSync(process.env.PETREL_KEY_FILE ?? 'shop.key', 'utf8').trim()
const pages = path.join(import.meta.dirname, 'pages')
const types = { '.html': 'text/html; charset=utf-8', '.css': 'text/css', '.js': 'text/javascript' }

createServer((request, response) => {
  answer(request, response).catch((why) => {
    if (response.headersSent) response.destroy()
    else response.writeHead(502).end(String(why))
  })
}).listen(Number(process.env.PORT ?? 8000), '127.0.0.1')

async function answer(request, response) {
  const url = new URL(request.url, 'http://shop')
  const user = /(?:^|; )user=([\w.-]{1,64})(?:;|$)/.exec(request.headers.cookie ?? '')?.[1] // your own login stands here: anybody can forge this cookie
  if (url.pathname === '/login') {
    response.writeHead(303, { 'Set-Cookie': `user=${encodeURIComponent(url.searchParams.get('user'))}; HttpOnly; SameSite=Lax`, Location: '/' }).end()
  } else if (url.pathname === '/style.css') {
    sendPage(response, 'style.css')
  } else if (!user) {
    sendPage(response, 'login.html', '', 401)
  } else if (url.pathname === '/chat-token' && request.method === 'POST') {
    const { device } = JSON.parse(await text(request))
    const minted = await fetch(`${petrel}/petrel.v1.AdminService/MintToken`, {
      method: 'POST', headers: { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' }, body: JSON.stringify({ user, device }),
    })
    response.writeHead(minted.ok ? 200 : 502, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }).end(await minted.text())
  } else {
    sendPage(response, path.basename(url.pathname) || 'index.html', user)
  }
}

async function text(request) {
  let all = ''
  for await (const part of request) all += part
  return all
}

function sendPage(response, name, user = '', status = 200) {
  try {
    const page = readFileSync(path.join(pages, name), 'utf8').replaceAll('{{user}}', user).replaceAll('{{server}}', petrel)
    response.writeHead(status, { 'Content-Type': types[path.extname(name)] }).end(page)
  } catch {
    response.writeHead(404).end()
  }
}
