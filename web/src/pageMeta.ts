function meta(name: string): string {
  return document.querySelector<HTMLMetaElement>(`meta[name="${name}"]`)?.content ?? ''
}

/** Values that the server has written into the page. */
export const page = {
  /** The name of the application. */
  name: meta('application-name').replace('{{name}}', 'Petrel') || 'Petrel',
  /** Who may create an account: open, invitation or closed. */
  registration: meta('petrel-registration'),
  /** The largest text of a message, in bytes; 0: not known, as in an element of another page. */
  bodyBytes: Number(meta('petrel-body-bytes')) || 0,
} as const

/** Whether only this host can reach the page. A link with a token may log in there. */
export function isLoopback(): boolean {
  return ['localhost', '127.0.0.1', '[::1]'].includes(location.hostname)
}

export const version = 'petrel-web/0.1.0'
