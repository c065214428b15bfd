// <petrel-chat> in JSX: `import type {} from '@petrel-im/chat/react'` once in the application.
import type { DetailedHTMLProps, HTMLAttributes } from 'react'
import type { PetrelChatElement, PetrelChatEventMap } from './petrel-chat.js'

type Properties = { readonly [K in 'server' | 'tenant' | 'user' | 'conv' | 'peer' | 'token' | 'tokenUrl' | 'theme']?: PetrelChatElement[K] | undefined }
/** The events as properties: React 19 adds the value of onpetrel-ready as a listener of petrel-ready. */
type Listeners = { readonly [K in keyof PetrelChatEventMap as `on${K}`]?: ((event: PetrelChatEventMap[K]) => void) | undefined }

declare module 'react' {
  namespace JSX {
    interface IntrinsicElements {
      'petrel-chat': DetailedHTMLProps<HTMLAttributes<PetrelChatElement>, PetrelChatElement> & Properties & Listeners & { readonly 'token-url'?: string | undefined }
    }
  }
}
