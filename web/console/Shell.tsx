import { type ReactElement, useEffect, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import { Icon, IconButton, isComposing, Logo } from '../ui/index.js'
import { useAddress } from './address.js'
import { call } from './call.js'
import { clock } from './formats.js'
import { named, useTranslation } from './i18n/index.js'
import { useLive, useVerdict } from './live.js'
import { pages } from './pages.js'
import { Link } from './parts/Facts.js'
import { Looks } from './parts/Looks.js'
import { end, may, type Session } from './session.js'

const wideWindow = '(min-width: 701px)' // console.css has the same width

/** The frame of all pages: the navigation, and the health of the servers. */
export function Shell({ session }: { readonly session: Session }): ReactElement {
  const { t } = useTranslation()
  const { page, id } = useAddress()
  const allowed = pages.filter((p) => may(p.scope, session))
  const shown = pages.find((p) => p.page === page)
  const main = useRef<HTMLElement>(null)
  const opener = useRef<HTMLDivElement>(null)
  const side = useRef<HTMLElement>(null)
  const [open, setOpen] = useState(false) // in a narrow window the navigation covers the page
  const shut = (): void => {
    flushSync(() => setOpen(false)) // synchronous, so that nothing else in the page gets the focus
    opener.current?.querySelector('button')?.focus()
  }
  useEffect(() => {
    if (open) side.current?.querySelector<HTMLElement>('[aria-current="page"], a')?.focus()
  }, [open])
  useEffect(() => {
    const wide = matchMedia(wideWindow)
    const leave = (): void => setOpen(false)
    wide.addEventListener('change', leave)
    return () => wide.removeEventListener('change', leave)
  }, [])
  const logOut = (): void => void call('OperatorService/LogOut', {}).catch(() => {}).finally(() => end('everywhere')) // without an answer the session expires within half an hour
  useEffect(() => {
    main.current?.scrollTo(0, 0)
    setOpen(false)
  }, [page, id])
  useEffect(() => {
    const key = (e: KeyboardEvent): void => {
      if (e.key !== '/' || isComposing(e) || e.ctrlKey || e.metaKey || e.altKey || (e.target as Element).closest('input, textarea, select, dialog')) return
      const field = document.querySelector<HTMLInputElement>('main input')
      if (!field) return
      e.preventDefault()
      field.focus()
    }
    addEventListener('keydown', key)
    return () => removeEventListener('keydown', key)
  }, [])
  return (
    <div className={open ? 'shell shell-open' : 'shell'} onKeyDown={(e) => { if (open && e.key === 'Escape' && !isComposing(e)) shut() }}>
      <a className="skip" href="#main" onClick={(e) => { e.preventDefault(); main.current?.focus() }}>{t('skip')}</a>
      <div className="top" ref={opener} inert={open}>
        <IconButton icon="menu" label={t('pages')} aria-expanded={open} onClick={() => setOpen(true)} />
        <b className="cut">{t(shown?.title ?? 'consoleTitle')}</b>
        {may('server', session) && <Health />}
      </div>
      {open && <div className="over" onClick={shut} />}
      <aside className="side" ref={side}>
        <div className="brand"><Logo size={28} /><span>{t('consoleTitle')}</span><span className="shut"><IconButton icon="close" label={t('close')} onClick={shut} /></span></div>
        <nav aria-label={t('pages')}>
          {allowed.map((p) => (
            <Link key={p.page} page={p.page} current={p.page === page} className="nav"><Icon name={p.icon} small /><span>{t(p.title)}</span>{p.page === '' && <Health />}</Link>
          ))}
        </nav>
        <div className="side-foot">
          <Looks />
          <div className="who"><Icon name="person" small /><span className="cut"><b>{session.name}</b><br /><span className="quiet">{(session.scopes ?? []).join(', ')}</span></span><IconButton small icon="exit" label={t('logOut')} onClick={logOut} /></div>
        </div>
      </aside>
      <main className="main" id="main" ref={main} tabIndex={-1} inert={open}>
        {may('server', session) && <Silence />}
        {shown && may(shown.scope, session) ? <shown.View key={page} /> : shown ? (page === '' && allowed[0] ? <First page={allowed[0].page} /> : <Nothing text={t('mayNot', { scope: shown.scope })} />) : <Nothing text={t('noPage')} />}
      </main>
      {may('server', session) && <Title />}
    </div>
  )
}

function Nothing({ text }: { readonly text: string }): ReactElement {
  return <div className="page"><p className="empty">{text}</p></div>
}

/** Shows another page instead of the overview, for an operator who may not see that. */
function First({ page }: { readonly page: string }): ReactElement {
  const view = pages.find((p) => p.page === page)
  return view ? <view.View /> : <></>
}

/** A warning on every page, while the last call for the overview failed. It names the other nodes that are known. */
function Silence(): ReactElement {
  const tr = useTranslation()
  const { overview, error, sinceMs } = useLive()
  if (!error) return <></>
  const others = (overview?.nodes ?? []).filter((n) => n.node !== overview?.answeredBy).map((n) => n.node)
  return (
    <div className="trouble silence" role="alert">
      <Icon name="alert" small />
      <span>{tr.t('noAnswerSince', { host: location.host, time: clock(sinceMs, tr) })} {error.code !== 'network' && named(tr, 'error', error.code)} {others.length > 0 && tr.t('otherNodes', { nodes: others.join(', ') })}</span>
    </div>
  )
}

function Health(): ReactElement {
  const { t } = useTranslation()
  const verdict = useVerdict()
  return <span className={`dot dot-${verdict}`} role="img" aria-label={t(`verdict_${verdict}`)} />
}

/** Shows the health in the title of the tab, because many operators have the console open in the background. */
function Title(): ReactElement {
  const { t } = useTranslation()
  const verdict = useVerdict()
  const { page, id } = useAddress()
  const name = id || t(pages.find((p) => p.page === page)?.title ?? 'consoleTitle')
  const sign = verdict === 'critical' ? '🔴 ' : verdict === 'degraded' ? '🟡 ' : ''
  useEffect(() => {
    document.title = `${sign}${name} · ${t('consoleTitle')}`
  }, [sign, name, t])
  return <></>
}
