// Defines <petrel-chat>. The chat itself is loaded when the first element is put into a page.
import { PetrelChat } from './PetrelChat.js'

export { PetrelChat }
export type { Login, TokenRequest, TokenSource } from './pageLogin.js'

if (typeof customElements !== 'undefined' && !customElements.get('petrel-chat')) customElements.define('petrel-chat', PetrelChat)
