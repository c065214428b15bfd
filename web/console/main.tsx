import { startTransition, StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { applyTheme, subscribePreferences } from '../src/preferences.js'
import { App } from './App.js'
import { begin, end, session, takeOver } from './session.js'
import { call } from './call.js'

applyTheme()
subscribePreferences(applyTheme)

void takeOver().then(async () => {
  if (session()) await call('OperatorService/GetSession', {}).then(begin, (e: unknown) => { if (e instanceof Error && 'code' in e && e.code === 'unauthenticated') end('expired') })
  const root = document.getElementById('root')
  if (root) startTransition(() => createRoot(root).render(<StrictMode><App /></StrictMode>)) // drawn in slices of some milliseconds
})
