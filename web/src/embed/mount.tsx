import type { Sent } from '@petrel-im/sdk'
import { createRoot } from 'react-dom/client'
import { ToastList } from '../../ui/index.js'
import type { Environment } from '../environment.js'
import { languageOf } from '../i18n/index.js'
import { codeOf, Embedded, messageOf, type Shown } from './Embedded.js'
import { refused } from './pageLogin.js'
import { ElementRouter } from './router.js'
import { type Account, isFree, take, type Use } from './sessions.js'
import { sheet } from './styles.js'

export { logOut } from './sessions.js'

/** The values of the attributes of an element. */
export interface Options extends Account {
  readonly conv: string
  readonly peer: string
  readonly theme: string
  readonly language: string // the language of the surrounding page, as a tag; '' if it names none
}

/** The chat that is drawn in an element. */
export interface Mounted {
  readonly update: (o: Options) => void
  readonly end: () => void
}

/** Draws the chat in the shadow tree of an element, until `end` is called. */
export function mount(element: HTMLElement, first: Options): Mounted {
  const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' })
  if (!root.adoptedStyleSheets.includes(sheet)) root.adoptedStyleSheets.push(sheet)
  const box = document.createElement('div')
  box.className = 'petrel'
  root.replaceChildren(box)
  const over = new AbortController()
  // To the page, keys that are typed here seem to come from the element. Its own shortcuts, such as / for a search,
  // must not work while the person writes, so such events stop here.
  for (const kind of ['keydown', 'keypress', 'keyup']) {
    root.addEventListener(kind, (e) => {
      if (e.target instanceof Element && /^(INPUT|TEXTAREA)$/.test(e.target.tagName)) e.stopPropagation()
    }, { signal: over.signal })
  }

  const react = createRoot(box)
  const toasts = new ToastList()
  const view = watchView(element, over.signal)
  const router = new ElementRouter((to) => {
    const stays = !element.dispatchEvent(new CustomEvent('petrel-open', { detail: { conv: to.conv, peer: to.user }, cancelable: true }))
    return !stays && !isOne(now)
  })
  let now = first
  let use: Use | undefined
  let shown: Shown
  let begun = 0 // how many sessions were begun
  let ended = false
  let stopped = false // the session has failed, and the page or the person has to act
  let off = (): void => {}

  const tell = (name: string, detail: object): void => void element.dispatchEvent(new CustomEvent(name, { detail }))
  const failed = (error: unknown): void => tell('petrel-error', { code: codeOf(error), message: messageOf(error) })
  const refusedBy = (error: unknown): void => {
    stopped = true
    failed(error)
  }
  const sent = (m: Sent): void => {
    m.wait().then((o) => tell('petrel-sent', { conv: o.conv, seq: o.seq, id: o.id }), (why: unknown) => {
      if (!ended) failed(why) // after the end the message is still in the outbox
    })
  }
  const tellUnread = (mine: Use): void => {
    off()
    off = watchUnread(mine, now, (detail) => tell('petrel-unread', detail))
  }
  let environment: Environment = { router, language: 'en', takesFocus: () => root.activeElement !== null, ...view, sent }

  const draw = (): void => {
    if (ended) return
    const language = languageOf('auto', [now.language, ...navigator.languages])
    if (language !== environment.language) environment = { ...environment, language }
    box.lang = language === 'zh' ? 'zh-CN' : 'en'
    box.dir = 'ltr'
    box.dataset['theme'] = now.theme
    react.render(<Embedded shown={shown} one={isOne(now)} element={element} environment={environment} toasts={toasts} onError={refusedBy} onOther={other} onAgain={again} />)
  }

  const begin = (): void => {
    stopped = false
    router.show({ account: now.user, conv: now.conv, user: now.peer })
    let mine: Use
    try {
      mine = take(now, (why) => {
        if (use !== mine) return
        if (why === undefined) anew(() => undefined)
        else refuse(why)?.release()
      })
    } catch (error) {
      shown = { error }
      refusedBy(error)
      draw()
      return
    }
    use = mine
    const key = ++begun
    mine.opened.then(() => {
      if (use !== mine) return
      shown = { session: mine.session, key }
      tellUnread(mine)
      draw()
      tell('petrel-ready', {})
    }, (error: unknown) => {
      if (use !== mine) return
      shown = { error }
      refusedBy(error)
      draw()
    })
    draw()
  }
  const end = (): Use | undefined => {
    const was = use
    off()
    off = () => {}
    use = undefined
    shown = undefined
    return was
  }
  /**
   * Removes the session from the element, calls `done` with its former use, and releases that. Then, unless the
   * element was removed or shows something again, it begins another session.
   */
  const anew = (done: (was: Use | undefined) => Promise<void> | undefined): void => {
    const was = end()
    draw()
    void Promise.resolve(done(was)).catch(failed).then(() => {
      was?.release()
      return isFree(now)
    }).then(() => {
      if (!ended && !use && !shown) begin()
    })
  }
  /** Shows an error in place of the session, and returns the former use, which the caller has to release. */
  const refuse = (error: unknown): Use | undefined => {
    const was = end()
    shown = { error }
    refusedBy(error)
    draw()
    return was
  }
  const again = (): void => anew((was) => was?.renew())
  const other = (user: string): void => {
    const error = refused('invalid', `the token belongs to ${user}, but the attribute user is ${now.user}`, 'set the attribute user to the user of the token')
    const was = refuse(error)
    void was?.forget(error).catch(failed).then(() => was.release())
  }

  anew(() => undefined)
  return {
    update(o) {
      const before = now
      now = o
      const other = o.server !== before.server || o.tenant !== before.tenant || o.user !== before.user
      // A framework may create the function anew each time it draws, so a new function alone does not begin a new
      // session.
      const told = o.token !== before.token && typeof o.token === 'string' || o.tokenUrl !== before.tokenUrl
      if (other || told && stopped) {
        anew((was) => other ? undefined : was?.renew())
        return
      }
      use?.asks(o)
      if (o.conv !== before.conv || o.peer !== before.peer) {
        router.show({ account: o.user, conv: o.conv, user: o.peer })
        if (use && shown) tellUnread(use)
      }
      draw()
    },
    end() {
      ended = true
      over.abort()
      end()?.release()
      react.unmount()
      box.remove()
    },
  }
}

/** Whether the page names the conversation to show. */
function isOne(o: Options): boolean {
  return o.conv !== '' || o.peer !== ''
}

/** Calls tell with the unread counts, now and after each change: of the conversation of the element, or of all. */
function watchUnread({ session: { client } }: Use, o: Options, tell: (unread: { readonly messages: number; readonly mentions: number }) => void): () => void {
  let told = ''
  return client.subscribe(() => {
    const v = isOne(o) ? client.conversation(o.conv || client.direct(o.peer)) : undefined
    const all = client.unread()
    const unread = !isOne(o) ? { messages: all.messages, mentions: all.mentions } : { messages: v?.unread ?? 0, mentions: v?.mentions.length ?? 0 }
    const text = JSON.stringify(unread)
    if (text !== told) tell(unread)
    told = text
  })
}

const shares = [0, 0.25, 0.5, 0.75, 1]

/**
 * Watches whether the person sees the element, which may be in a part of the page that is scrolled away or hidden.
 */
function watchView(element: Element, over: AbortSignal): Pick<Environment, 'isSeen' | 'onSeen'> {
  const listeners = new Set<() => void>()
  let inView = false
  const changed = (): void => listeners.forEach((f) => f())
  const observer = new IntersectionObserver((entries) => {
    const e = entries.at(-1)
    inView = e !== undefined && (e.intersectionRatio >= 0.5 || e.intersectionRect.height >= innerHeight / 2)
    changed()
  }, { threshold: shares })
  observer.observe(element)
  over.addEventListener('abort', () => observer.disconnect())
  addEventListener('focus', changed, { signal: over })
  addEventListener('resize', changed, { signal: over })
  document.addEventListener('scroll', changed, { signal: over, capture: true, passive: true }) // scrolling of any element of the page
  document.addEventListener('visibilitychange', changed, { signal: over })
  document.addEventListener('transitionend', changed, { signal: over }) // the page may fade the element in
  return {
    isSeen: () => inView && element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && document.visibilityState === 'visible' && document.hasFocus(),
    onSeen(f) {
      listeners.add(f)
      return () => listeners.delete(f)
    },
  }
}
