function meta(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content ?? ''
}

/** What the server has written into the page. */
export const page = {
  /** The name of the application. */
  name: meta('application-name').replace('{{name}}', 'Petrel') || 'Petrel',
  /** Who may make an account: open, invitation or closed. */
  registration: meta('petrel-registration'),
  /** The largest text of a message, in bytes; 0: not known, as in a page of somebody else. */
  bodyBytes: Number(meta('petrel-body-bytes')) || 0,
} as const

/** Whether only this host reaches the page: there a link with a token may log in. */
export function isLoopback(): boolean {
  return ['localhost', '127.0.0.1', '[::1]'].includes(location.hostname)
}

export const version = 'petrel-web/0.1.0'
