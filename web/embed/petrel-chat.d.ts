// <petrel-chat>: the chat of a Petrel server as an element of a page.

/** A request of the element for a token. Pass `device` on when you log the person in. */
export interface TokenRequest {
  /** This browser. The id stays the same for an account until its data is removed. */
  readonly device: { readonly id: string; readonly kind: 'web'; readonly name: string }
  /** The token that the server has just refused, or ''. */
  readonly refused: string
  /** Aborted 10 s after a token was needed. A later answer is ignored. */
  readonly signal: AbortSignal
}

/** The answer of AdminService/MintToken, as your back end got it. The element keeps and refreshes it. */
export interface Login {
  readonly user?: string
  readonly device?: string
  readonly accessToken: string
  readonly accessExpiresMs?: number | string
  readonly refreshToken?: string
  readonly refreshExpiresMs?: number | string
}

/** An access token; or a function that returns one, or a login, each time one is needed. */
export type TokenSource = string | ((request: TokenRequest) => string | Login | Promise<string | Login>)

/** The properties. Those that are texts reflect attributes of the same name. */
export interface PetrelChatElement extends HTMLElement {
  /**
   * The address of the server, like https://chat.example.org. The server has to allow your origin in
   * `listen.origins`.
   */
  server: string
  /** The tenant of the user; 'default' if it is not set. */
  tenant: string
  /** The user who is logged in to your page. */
  user: string
  /** The id of the conversation to show. Without conv and peer the element shows the list of all. */
  conv: string
  /** The user whose direct conversation is shown, even before its first message. */
  peer: string
  /** The source of tokens. The attribute is a token; the property may be a function. */
  get token(): TokenSource
  set token(source: TokenSource | undefined)
  /**
   * An address of your back end, used if there is no token. The element sends a POST with {"device"}; the answer is
   * a login or {"token"}. 401 or 403: nobody is logged in.
   */
  tokenUrl: string
  /** 'light', 'dark' or 'system'. If it is not set, the element follows the color-scheme of the page. */
  theme: string
  /** The language of the texts: 'en' or 'zh'. If it is not set, the element follows the language of the page. */
  lang: string
  /**
   * Voids the tokens of this browser, and removes the data of the account from it. Call it when the person logs out
   * of your page. It returns false if the tokens may still be valid, because the server was not reached.
   */
  logOut(): Promise<boolean>
}

/** The events of the element. They do not bubble. */
export interface PetrelChatEventMap {
  /** The data in this browser is loaded and shown. */
  'petrel-ready': CustomEvent<object>
  /** The unread counts have changed: of the conversation that is shown, or of all if the list is shown. */
  'petrel-unread': CustomEvent<{ readonly messages: number; readonly mentions: number }>
  /** A message of the person is stored. */
  'petrel-sent': CustomEvent<{ readonly conv: string; readonly seq: number; readonly id: string }>
  /**
   * The person wants to open another conversation; preventDefault keeps the list as it is. If conv or peer is set,
   * the element stays at its conversation.
   */
  'petrel-open': CustomEvent<{ readonly conv: string; readonly peer: string }>
  /** Something has failed. `code` is a code of the error catalogue, or ''. */
  'petrel-error': CustomEvent<{ readonly code: string; readonly message: string }>
}

/** The class of the element. In a browser the module registers it as petrel-chat. */
export declare const PetrelChat: { new (): PetrelChatElement; readonly observedAttributes: readonly string[] }

declare global {
  interface HTMLElementTagNameMap {
    'petrel-chat': PetrelChatElement
  }
}
