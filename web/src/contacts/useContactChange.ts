import { isPetrelError } from '@petrel-im/sdk'
import { type Contact, contactsOf } from '@petrel-im/sdk/contacts'
import { useClient } from '@petrel-im/sdk/react'
import { useState } from 'react'
import { useToast } from '../../ui/index.js'
import { soon } from '../chat/failureText.js'
import { useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { contactFailure } from './contactFailure.js'

type Contacts = ReturnType<typeof contactsOf>

/** A change of a contact, and what became of the last one. */
export interface ContactChange {
  readonly busy: boolean
  readonly error: string | undefined // why the last change has failed
  /** Makes a change, and calls done after it. */
  readonly change: (make: (contacts: Contacts, options: ReturnType<typeof soon>) => Promise<Contact>, done?: () => void) => void
}

/** Returns the state of the changes that one view makes of contacts: one at a time. */
export function useContactChange(): ContactChange {
  const { t } = useLaterTranslation()
  const client = useClient()
  const toast = useToast()
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string | undefined>(undefined)
  return {
    busy, error,
    change(make, done) {
      if (busy) return
      setBusy(true)
      setError(undefined)
      make(contactsOf(client), soon(client)).then(done, (why: unknown) => {
        const text = contactFailure(why, t)
        if (isPetrelError(why) && why.code === 'no_contact') toast(text) // the view of the request goes as soon as the client is told
        else setError(text)
      }).finally(() => setBusy(false))
    },
  }
}
