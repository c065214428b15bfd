import type { PetrelChatElement } from '../../embed/petrel-chat.js'
import { frame } from './hostStyles.js'
import type { TokenSource } from './pageLogin.js'
import type { Mounted, Options } from './mount.js'

/** A server has no HTMLElement. The module can be imported there, and defines no element. */
const Base = globalThis.HTMLElement ?? (class {} as unknown as typeof HTMLElement)

const names = ['server', 'tenant', 'user', 'conv', 'peer', 'token', 'token-url', 'lang', 'theme'] as const

/**
 * The chat as an element of a page; petrel-chat.d.ts describes its attributes. State that outlives the element is in
 * the session, which all elements of an account share.
 */
export class PetrelChat extends Base implements PetrelChatElement {
  static readonly observedAttributes: readonly string[] = names

  #source: TokenSource | undefined
  #mounted: Mounted | undefined
  #turns: Promise<void> = Promise.resolve()
  #waiting = false // a draw is scheduled, and will use the newest values

  get token(): TokenSource {
    return this.#source ?? this.getAttribute('token') ?? ''
  }

  set token(source: TokenSource | undefined) {
    this.#source = source
    this.#changed()
  }

  get server(): string { return this.getAttribute('server') ?? '' }
  set server(value: string) { this.#set('server', value) }
  get tenant(): string { return this.getAttribute('tenant') ?? 'default' }
  set tenant(value: string) { this.#set('tenant', value) }
  get user(): string { return this.getAttribute('user') ?? '' }
  set user(value: string) { this.#set('user', value) }
  get conv(): string { return this.getAttribute('conv') ?? '' }
  set conv(value: string) { this.#set('conv', value) }
  get peer(): string { return this.getAttribute('peer') ?? '' }
  set peer(value: string) { this.#set('peer', value) }
  get tokenUrl(): string { return this.getAttribute('token-url') ?? '' }
  set tokenUrl(value: string) { this.#set('token-url', value) }
  get theme(): string { return this.getAttribute('theme') ?? '' }
  set theme(value: string) { this.#set('theme', value) }

  connectedCallback(): void {
    if (!this.shadowRoot) this.attachShadow({ mode: 'open' }).adoptedStyleSheets = [frame()]
    // A framework may have set properties before this class was defined. Then they hide the setters.
    for (const name of ['token', 'server', 'tenant', 'user', 'conv', 'peer', 'tokenUrl', 'theme'] as const) {
      if (!Object.hasOwn(this, name)) continue
      const value = this[name]
      delete (this as Partial<Record<typeof name, unknown>>)[name]
      ;(this as Record<typeof name, unknown>)[name] = value
    }
    this.#changed()
  }

  disconnectedCallback(): void {
    this.#changed()
  }

  attributeChangedCallback(): void {
    this.#changed()
  }

  override focus(options?: FocusOptions): void {
    const field = this.shadowRoot?.querySelector<HTMLElement>('.composer-field, input[type="search"]')
    if (field) field.focus(options)
    else super.focus(options)
  }

  async logOut(): Promise<boolean> {
    const { logOut } = await import('./mount.js')
    return logOut(this.#options())
  }

  #set(name: string, value: string): void {
    if (value) this.setAttribute(name, value)
    else this.removeAttribute(name)
  }

  /**
   * Schedules a draw of the present values, one for all changes of this turn. So an element that is moved in the
   * page is not mounted anew.
   */
  #changed(): void {
    if (this.#waiting) return
    this.#waiting = true
    this.#turns = this.#turns.then(() => {
      this.#waiting = false
      return this.#draw()
    }).catch((why: unknown) => this.#failed(why))
  }

  async #draw(): Promise<void> {
    if (!this.isConnected) {
      this.#mounted?.end()
      this.#mounted = undefined
      return
    }
    const { mount } = await import('./mount.js')
    if (!this.isConnected) return // the next draw ends it
    const options = this.#options()
    if (this.#mounted) this.#mounted.update(options)
    else this.#mounted = mount(this, options)
  }

  /**
   * Shows that the chat could not be loaded: the server is away, or was replaced by another version. The texts and
   * styles of the chat are missing then, except for the frame.
   */
  #failed(why: unknown): void {
    if (this.isConnected && !this.#mounted) {
      const chinese = /^zh\b/i.test(this.#options().language || navigator.language)
      const note = document.createElement('div')
      note.className = 'not-loaded'
      const text = document.createElement('p')
      text.role = 'alert'
      text.textContent = chinese ? '聊天未能加载。请重试，或刷新页面。' : 'The chat was not loaded. Try again, or reload the page.'
      const again = document.createElement('button')
      again.textContent = chinese ? '重试' : 'Try again'
      again.onclick = () => this.#changed()
      note.append(text, again)
      this.shadowRoot?.replaceChildren(note)
    }
    this.dispatchEvent(new CustomEvent('petrel-error', { detail: { code: '', message: String(why) } }))
  }

  #options(): Options {
    const { server, tenant, user, conv, peer, token, tokenUrl, theme } = this
    const language = this.closest<HTMLElement>('[lang]')?.lang ?? ''
    return { server, tenant, user, conv, peer, token, tokenUrl, theme, language }
  }
}
