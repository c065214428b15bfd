// Keeps the files of the page, so that it opens without a connection, and those of the version
// before. It answers for these files and for nothing else: what goes to the API passes it by.
const version = "30c49540549b6beb"
const files = ["/","/assets/en-C2Up0H_u.js","/assets/index-Bkm6BW3P.js","/assets/index-Dw-7AVLR.css","/assets/parts-CkEn8xKr.css","/assets/parts-DN290jUg.js","/assets/zh-BIwJPeqy.js","/icon-maskable.svg","/icon-unread.svg","/icon.svg","/manifest.webmanifest"]
const cacheName = `petrel-${version}`
const slowMs = 3000 // a network that takes longer is taken for none

self.addEventListener('install', (event) => {
  event.waitUntil(caches.open(cacheName).then((cache) => cache.addAll(files)).then(() => self.skipWaiting()))
})

self.addEventListener('activate', (event) => {
  event.waitUntil(caches.keys()
    .then((names) => Promise.all(names.filter((name) => name.startsWith('petrel-') && name !== cacheName).slice(0, -1).map((name) => caches.delete(name)))) // the last one is for pages that are open still
    .then(() => self.clients.claim()))
})

self.addEventListener('fetch', (event) => {
  const url = new URL(event.request.url)
  if (event.request.method !== 'GET' || url.origin !== self.location.origin || !(files.includes(url.pathname) || url.pathname.startsWith('/assets/'))) return
  event.respondWith(url.pathname === '/' ? page() : kept(event.request))
})

/** The page of the server, which may be a newer one; without a network the one that is kept. */
async function page() {
  const cache = await caches.open(cacheName)
  try {
    const answer = await fetch('/', { signal: AbortSignal.timeout(slowMs) })
    if (answer.ok) return answer
  } catch {
    // There is no network.
  }
  return await cache.match('/', { ignoreVary: true }) ?? Response.error()
}

/** A file of this version; of the version before, whose pages may be open still; or else what the server has. */
async function kept(request) {
  const cache = await caches.open(cacheName)
  return await cache.match(request, { ignoreVary: true }) ?? await caches.match(request, { ignoreVary: true }) ?? fetch(request)
}

// What Web Push brings would be shown here, as src/notifications.ts does for a tab that is open: with the
// address of the conversation in `data`, and always something, or browsers take the right to it away.

// A notification brings the person to the conversation: in a tab of the account that is open, if there is one.
self.addEventListener('notificationclick', (event) => {
  event.notification.close()
  const { address } = event.notification.data
  event.waitUntil(self.clients.matchAll({ type: 'window' }).then(async (tabs) => {
    for (const tab of tabs) if (await goes(tab, address)) return tab.focus()
    return self.clients.openWindow(`/${address}`)
  }))
})

const answerMs = 300 // a tab that takes longer is frozen

/** Has a tab go to a conversation, if it is one of that account. The worker cannot see that: the address of a tab is here the one at which it was opened. */
function goes(tab, address) {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = ({ data }) => resolve(data)
    setTimeout(() => resolve(false), answerMs)
    tab.postMessage({ kind: 'open', address }, [port2])
  })
}
