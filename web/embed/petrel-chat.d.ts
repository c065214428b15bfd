// <petrel-chat>: the chat of a Petrel server as an element of a page.

/** Which device of the person asks for a token. Pass it on when you log the person in. */
export interface TokenRequest {
  /** Of this browser, the same for an account as long as nothing is removed. */
  readonly device: { readonly id: string; readonly kind: 'web'; readonly name: string }
  /** The token that the server has refused just now, or ''. */
  readonly refused: string
  /** Aborted after 15 s: nobody waits any more. */
  readonly signal: AbortSignal
}

/** The answer of AdminService/MintToken, as your back end got it. The element keeps it, and refreshes it by itself. */
export interface Login {
  readonly user?: string
  readonly device?: string
  readonly accessToken: string
  readonly accessExpiresMs?: number | string
  readonly refreshToken?: string
  readonly refreshExpiresMs?: number | string
}

/** An access token; or what gives one, or a login, each time that one is needed. */
export type TokenSource = string | ((request: TokenRequest) => string | Login | Promise<string | Login>)

/** The properties. Those with a text stand for attributes of the same name. */
export interface PetrelChatElement extends HTMLElement {
  /** Address of the server, like https://chat.example.org. The server has to allow your origin: `listen.origins`. */
  server: string
  /** The tenant of the user; 'default' by itself. */
  tenant: string
  /** Who is logged in to your page. */
  user: string
  /** The id of the conversation that is shown. Without conv and peer there is the list of all. */
  conv: string
  /** The user with whom the conversation is that is shown, also before there is one. */
  peer: string
  /** Says who is logged in. The attribute is a token; the property may be a function. */
  get token(): TokenSource
  set token(source: TokenSource | undefined)
  /** In the place of token: an address of your back end. It is asked by POST with {"device"}, and answers with a login or {"token"}. 401 and 403: nobody is logged in. */
  tokenUrl: string
  /** 'light', 'dark', or 'system'. Without it the element follows the color-scheme of the page around it. */
  theme: string
  /** The language of the texts: 'en' or 'zh'; by itself that of the page around it. */
  lang: string
  /** Voids the tokens of this browser and removes what it holds of the account. Call it when the person logs out of your page. False: the server was not reached, the tokens may still be valid. */
  logOut(): Promise<boolean>
}

/** What the element tells its page. The events do not bubble. */
export interface PetrelChatEventMap {
  /** What this browser holds is shown. */
  'petrel-ready': CustomEvent<object>
  /** How much is unread has changed: in the conversation, or in all if there is a list. */
  'petrel-unread': CustomEvent<{ readonly messages: number; readonly mentions: number }>
  /** A message of the person is stored. */
  'petrel-sent': CustomEvent<{ readonly conv: string; readonly seq: number; readonly id: string }>
  /** The person wants to see another conversation. With preventDefault the list stays as it is. An element with conv or peer never leaves its own by itself. */
  'petrel-open': CustomEvent<{ readonly conv: string; readonly peer: string }>
  /** Something has failed; `code` is of the catalogue of errors, '' if it has none. */
  'petrel-error': CustomEvent<{ readonly code: string; readonly message: string }>
}

/** The class of the element. It is defined as petrel-chat when the module is loaded in a browser. */
export declare const PetrelChat: { new (): PetrelChatElement; readonly observedAttributes: readonly string[] }

declare global {
  interface HTMLElementTagNameMap {
    'petrel-chat': PetrelChatElement
  }
}
