import { type Client, type Conversation, mentionsUser, type Message } from '@petrel-im/sdk'
import type { Session } from './account/SessionContext.js'
import { currentTranslation } from './i18n/index.js'
import { plainOf } from './chat/plainText.js'
import { nameOf } from './account/useName.js'
import { page } from './pageMeta.js'
import { preferences } from './preferences.js'
import { address } from './route.js'
import { chatRoute, isListed, isMuted } from './sidebar/chatList.js'

const longest = 160 // characters of a message in a notification
const titleEveryMs = 200 // the title changes at most this often, because a change is work for the browser
const oneTabMs = 1500 // within this time another tab does not announce the same message

export function permission(): NotificationPermission | 'unsupported' {
  return 'Notification' in globalThis && 'serviceWorker' in navigator ? Notification.permission : 'unsupported'
}

/** Asks the person for the permission, if they have not decided yet, and returns whether it is given. */
export async function mayNotify(): Promise<boolean> {
  return permission() === 'granted' || permission() === 'default' && await Notification.requestPermission() === 'granted'
}

/**
 * Notifies the person of new messages while they look elsewhere, and shows the unread count in the title, the icon
 * and the badge of the application. The returned function ends the watch, and removes the count from the title.
 */
export function watchMessages(session: Session): () => void {
  const { client, user } = session
  const told = new Map<string, number>() // by conversation: the newest seq that was announced, or needs no announcement
  let begun = false
  const look = (conv: string): void => {
    const v = client.conversation(conv)
    const m = v?.last
    if (!v || !m || m.seq <= (told.get(conv) ?? 0)) return
    const first = !told.has(conv) && !begun
    told.set(conv, m.seq)
    if (first || !isWorthTelling(client, v, m, user)) return
    void onceInAllTabs(`${user}/${conv}/${m.seq}`, () => tell(v, m, session))
  }
  let shown: number | undefined
  let timer: ReturnType<typeof setTimeout> | undefined
  const showUnread = (): void => {
    timer = undefined
    const { messages } = client.unread()
    if (messages === shown) return
    const changes = (messages > 0) !== (shown ?? 0) > 0
    shown = messages
    document.title = messages > 0 ? `(${messages}) ${page.name}` : page.name
    if (changes) document.querySelector<HTMLLinkElement>('link[rel="icon"]')?.setAttribute('href', messages > 0 ? '/icon-unread.svg' : '/icon.svg')
    const badge = navigator as { setAppBadge?: (n: number) => Promise<void> }
    badge.setAppBadge?.(messages).catch(() => {}) // fails if the page is not installed
  }
  const end = client.subscribe((change) => {
    if (change.unread) timer ??= setTimeout(showUnread, titleEveryMs)
    if (!begun && !client.status().synced) {
      for (const v of client.conversations()) told.set(v.id, v.head) // messages that came before the page was opened are not announced
      return
    }
    begun = true
    for (const conv of change.conversations) look(conv)
  })
  showUnread()
  return () => {
    end()
    clearTimeout(timer)
    document.title = page.name
  }
}

function isWorthTelling(client: Client, v: Conversation, m: Message, user: string): boolean {
  if (!isListed(v) || m.from === user || m.seq <= v.read || m.recalledBy > 0 || m.rel?.silent || v.personal.archived) return false
  if (document.visibilityState === 'visible' && document.hasFocus()) return false
  const mentioned = mentionsUser(m, client.status().user)
  return v.personal.notify === 'mentions' ? mentioned : mentioned && v.personal.notify !== 'nothing' || !isMuted(v)
}

/** Runs f in only one of the tabs that call this within oneTabMs. A browser without locks runs f in each tab. */
async function onceInAllTabs(name: string, f: () => void): Promise<void> {
  if (!('locks' in navigator)) return f()
  await navigator.locks.request(`petrel-told:${name}`, { ifAvailable: true }, async (lock) => {
    if (!lock) return
    f()
    await new Promise((resolve) => setTimeout(resolve, oneTabMs))
  })
}

function tell(v: Conversation, m: Message, session: Session): void {
  const { notify, sound } = preferences()
  if (sound) chime()
  if (!notify || permission() !== 'granted') return
  const { t } = currentTranslation()
  const text = m.text === undefined ? t('otherKind') : plainOf(m.text, m.rel?.mentions ?? [], session).slice(0, longest)
  const from = nameOf(session, m.from)
  void navigator.serviceWorker.ready.then((worker) => worker.showNotification(v.kind === 'group' ? v.title : from, {
    body: v.kind === 'group' ? `${from}: ${text}` : text, tag: `${session.user}/${v.id}`, icon: '/icon.svg', silent: true, data: { address: address(chatRoute(session.user, v)) },
  }))
}

let audio: AudioContext | undefined

/**
 * Plays two soft tones, which are synthesized, so that no file is needed. Browsers play nothing before the first
 * click.
 */
function chime(): void {
  try {
    audio ??= new AudioContext()
    for (const [i, hertz] of [660, 880].entries()) {
      const tone = audio.createOscillator()
      const volume = audio.createGain()
      const from = audio.currentTime + i * 0.09
      tone.frequency.value = hertz
      volume.gain.setValueAtTime(0.06, from)
      volume.gain.exponentialRampToValueAtTime(0.0001, from + 0.18)
      tone.connect(volume).connect(audio.destination)
      tone.start(from)
      tone.stop(from + 0.2)
    }
  } catch {
    // Sound is not available.
  }
}
