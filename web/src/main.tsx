import './begin.js'
import { startTransition, StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { toast } from '../ui/index.js'
import { App } from './App.js'
import { sessions } from './account/session.js'
import { currentTranslation } from './i18n/index.js'
import { isLoopback } from './pageMeta.js'
import { addAccountRoute } from './sidebar/AccountMenu.js'
import { applyTheme, subscribePreferences } from './preferences.js'
import { go, parseRoute, route } from './route.js'

applyTheme()
subscribePreferences(applyTheme)

/**
 * Logs in with the token after the # of a link of `petrel demo`. Only a page that this host alone can reach accepts
 * it: elsewhere a stranger could send a link, and the person would write in the account of the stranger.
 */
async function takeLink(): Promise<void> {
  const token = /^#t=([\w.@+-]+)$/.exec(location.hash)?.[1]
  if (token === undefined) return
  history.replaceState(null, '', '#/')
  const account = isLoopback() ? await sessions.admitToken(token) : ''
  go({ account }, true)
  if (account === '') toast(currentTranslation().t('errorLink'))
}

if ('serviceWorker' in navigator) {
  addEventListener('load', () => void navigator.serviceWorker.register('/sw.js').catch(() => {})) // without the worker the page needs the network to open
  navigator.serviceWorker.addEventListener('message', ({ data, ports }: MessageEvent<{ readonly kind?: string; readonly address?: string }>) => {
    if (data.kind !== 'open' || !data.address?.startsWith('#/')) return
    const isOurs = parseRoute(data.address).account === route().account
    if (isOurs) location.hash = data.address
    ports[0]?.postMessage(isOurs)
  })
}

void takeLink().finally(async () => {
  const { account } = route()
  if (account !== '' && account !== addAccountRoute) await sessions.open(account).catch(() => {}) // App shows the error
  const root = document.getElementById('root')
  // Drawn in slices of some milliseconds, so that the browser can do other work between them.
  if (root) startTransition(() => createRoot(root).render(<StrictMode><App /></StrictMode>))
})
