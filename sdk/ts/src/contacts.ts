// The contacts of the user, and the requests that wait.
import type { CallOptions } from './api.js'
import type { Client } from './client.js'
import { sameFields, sameList } from './core/change.js'
import { contactAnswered, contactCall, type ContactValues, contactValues, eachContact } from './core/contacts.js'
import type { ContactJson } from './wire/frames_gen.js'

/** What another user is to the user of the client: a contact, or a request waits. Spec: P-14.7. */
export interface Contact {
  readonly user: string
  /** They are a contact since then, in Unix ms; absent: they are not. */
  readonly sinceMs?: number
  /** The name that the user gives the contact; nobody else sees it. */
  readonly remark: string
  /** When the user asked them, in Unix ms; absent: no request to them waits. */
  readonly sentMs?: number
  /** When they asked the user, in Unix ms; absent: no request from them waits. */
  readonly receivedMs?: number
  /** Of the request. */
  readonly greeting: string
}

/** The user whom a request names. */
export type ContactWanted = { readonly user: string } | { readonly handle: string }

interface Known {
  readonly values: ContactValues
  readonly contact: Contact | undefined // undefined: not a contact, and no request waits
}

type Method = 'AcceptMessages' | 'RefuseMessages' | 'AcceptContact' | 'RefuseContact' | 'WithdrawContact' | 'RemoveContact'

/**
 * The contacts of the user of a client, and the requests that wait. They are settings of the user, so a change of them
 * on any device is a `Change.account` of the client. Each method that changes one waits for the connection, and
 * resolves with the contact as it is afterwards. `get` and `list` have it then, unless the client has connected since
 * the method was called: then they have it when the client has synced. Spec: P-14.7, P-14.8, S-21.
 */
class Contacts {
  readonly #client: Client
  readonly #known = new Map<string, Known>()
  #found: readonly Contact[] = [] // in no order
  #list: readonly Contact[] = []

  constructor(client: Client) {
    this.#client = client
  }

  get #driver(): Client['driver'] {
    return this.#client['driver']
  }

  /** Returns all contacts and waiting requests, ascending by user: the same array until one of them changes. */
  readonly list = (): readonly Contact[] => {
    const found: Contact[] = []
    this.#driver.read((core) => eachContact(core, (user, values) => {
      const contact = this.#contact(user, values)
      if (contact) found.push(contact)
    }))
    if (sameList(this.#found, found) === found) {
      this.#found = found
      this.#list = sameList(this.#list, [...found].sort((a, b) => (a.user < b.user ? -1 : 1)))
    }
    return this.#list
  }

  /** Returns what another user is: the same object until that changes; undefined: not a contact, and no request waits. */
  readonly get = (user: string): Contact | undefined => this.#contact(user, this.#driver.read((core) => contactValues(core, user)))

  /**
   * Asks another user to become a contact. If a request of theirs waits, or they have this user as a contact, both are
   * contacts at once. A repeat changes the greeting, which has at most 200 characters. Codes: invalid, no_user,
   * forbidden (this user blocks them, or only the back end changes contacts), too_many_contacts, rate_limited (no
   * look-up is left, or this user has withdrawn a request to them in the last ten seconds).
   */
  ask(wanted: ContactWanted, greeting = '', options?: CallOptions): Promise<Contact> {
    return this.#change(() => this.#client.call('petrel.v1.ContactService/RequestContact', { ...wanted, greeting }, options))
  }

  /** Accepts the request of another user: each is a contact of the other one then. Codes: no_contact, no_user, forbidden, too_many_contacts. */
  accept(user: string, options?: CallOptions): Promise<Contact> {
    return this.#act('AcceptContact', user, options)
  }

  /** Removes the request of another user, who is not told. Code: forbidden. */
  refuse(user: string, options?: CallOptions): Promise<Contact> {
    return this.#act('RefuseContact', user, options)
  }

  /** Ends the request to another user. Code: forbidden. */
  withdraw(user: string, options?: CallOptions): Promise<Contact> {
    return this.#act('WithdrawContact', user, options)
  }

  /** Removes a contact, with the remark. The other user keeps this one as a contact. Code: forbidden. */
  remove(user: string, options?: CallOptions): Promise<Contact> {
    return this.#act('RemoveContact', user, options)
  }

  /** Sets the remark of a contact: at most 64 characters in one line; '' removes it. Codes: invalid, no_contact. */
  setRemark(user: string, remark: string, options?: CallOptions): Promise<Contact> {
    return this.#change(() => this.#client.call('petrel.v1.ContactService/SetRemark', { user, remark }, options))
  }

  /** Accepts the first messages of another user, and all further ones. */
  acceptMessages(user: string, options?: CallOptions): Promise<Contact> {
    return this.#act('AcceptMessages', user, options)
  }

  /** Refuses the first messages of another user, who is not told. Further ones do not arrive. */
  refuseMessages(user: string, options?: CallOptions): Promise<Contact> {
    return this.#act('RefuseMessages', user, options)
  }

  #act(method: Method, user: string, options?: CallOptions): Promise<Contact> {
    return this.#change(() => this.#client.call(`petrel.v1.ContactService/${method}`, { user }, options))
  }

  async #change(call: () => Promise<ContactJson>): Promise<Contact> {
    const began = this.#driver.read(contactCall)
    const answer = await call()
    const { user = '' } = answer
    const values = valuesOf(answer)
    this.#driver.apply((core) => contactAnswered(core, began, user, values))
    return sameFields(this.get(user), contactOf(user, values))
  }

  #contact(user: string, values: ContactValues): Contact | undefined {
    const known = this.#known.get(user)
    if (known && sameList(known.values, values) === known.values) return known.contact
    const now = contactOf(user, values)
    const contact = now.sinceMs ?? now.sentMs ?? now.receivedMs ? now : undefined
    if (contact) this.#known.set(user, { values, contact })
    else this.#known.delete(user)
    return contact
  }
}

export type { Contacts }

const all = new WeakMap<Client, Contacts>()

/** Returns the contacts of the user of a client: the same object for the same client. */
export function contactsOf(client: Client): Contacts {
  const contacts = all.get(client) ?? new Contacts(client)
  all.set(client, contacts)
  return contacts
}

/** Returns what the settings with these values say. Spec: P-14.7. */
function contactOf(user: string, values: ContactValues): Contact {
  const [since, sent, received] = values.map(timeAndText)
  return Object.freeze({
    user, remark: since?.text ?? '', greeting: (received ?? sent)?.text ?? '',
    ...since && { sinceMs: since.ms }, ...sent && { sentMs: sent.ms }, ...received && { receivedMs: received.ms },
  })
}

function timeAndText(value: string): { readonly ms: number; readonly text: string } | undefined {
  if (value === '') return undefined // most are
  const [, ms = '0', text = ''] = /^(\d+)(?: (.*))?$/s.exec(value) ?? []
  return Number(ms) > 0 ? { ms: Number(ms), text } : undefined
}

/** Returns the values that the settings have after a call with this answer. */
function valuesOf({ sinceMs = '0', remark = '', sentMs = '0', receivedMs = '0', greeting = '', messagesMs = '0', messagesRefused }: ContactJson): ContactValues {
  const value = (ms: string | number, text: string): string => Number(ms) > 0 ? `${ms} ${text}`.replace(/ $/, '') : ''
  return [value(sinceMs, remark), value(sentMs, greeting), value(receivedMs, greeting), value(messagesMs, messagesRefused ? 'refused' : '')]
}
