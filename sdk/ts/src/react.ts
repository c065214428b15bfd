// Hooks for React that return the snapshots of a client.
import { createContext, createElement, type ReactElement, type ReactNode, useCallback, useContext, useEffect, useMemo, useSyncExternalStore } from 'react'
import type { Client } from './client.js'
import { type Contact, contactsOf } from './contacts.js'
import type { Change, Conversation, Message, Outgoing, Presence, Quoted, Signal, Unread } from './core/index.js'
import { type HistoryView, HistoryWindow } from './history.js'
import type { Status } from './options.js'
import type { Profile, Profiles } from './profiles.js'

const Context = createContext<Client | undefined>(undefined)
const ProfilesContext = createContext<Profiles | undefined>(undefined)

/**
 * Provides a client to the components inside it, and keeps it connected while it is mounted. Make the client, and the
 * Profiles for useProfile, outside of components, because they outlive them.
 */
export function PetrelProvider({ client, profiles, children }: { readonly client: Client; readonly profiles?: Profiles; readonly children?: ReactNode }): ReactElement {
  useEffect(() => client.connect(), [client])
  return createElement(Context.Provider, { value: client }, createElement(ProfilesContext.Provider, { value: profiles }, children))
}

/** Returns the client of the PetrelProvider around the component. */
export function useClient(): Client {
  const client = useContext(Context)
  if (!client) throw new Error('there is no PetrelProvider around this component')
  return client
}

/** Reads a snapshot, and reads it again at each change that may affect it. */
function useSnapshot<T>(isOf: (change: Change) => boolean, read: (client: Client) => T): T {
  const client = useClient()
  const subscribe = useCallback((changed: () => void) => client.subscribe((change) => {
    if (isOf(change)) changed()
  }), [client, isOf])
  const snapshot = (): T => read(client)
  return useSyncExternalStore(subscribe, snapshot, snapshot)
}

/** Reads a snapshot of one conversation. */
function useOfConversation<T>(conv: string, read: (client: Client) => T): T {
  return useSnapshot(useCallback((change: Change) => change.conversations.has(conv), [conv]), read)
}

const ofStatus = (c: Change): boolean => c.status
const ofList = (c: Change): boolean => c.list || c.conversations.size > 0
const ofPending = (c: Change): boolean => c.pending || c.list || c.conversations.size > 0
const ofUnread = (c: Change): boolean => c.unread
const ofSignals = (c: Change): boolean => c.signals
const ofPresence = (c: Change): boolean => c.presence
const ofAccount = (c: Change): boolean => c.account

/** The state of the connection. */
export function useStatus(): Status {
  return useSnapshot(ofStatus, (client) => client.status())
}

/** All conversations, those with the newest messages first. */
export function useConversations(): readonly Conversation[] {
  return useSnapshot(ofList, (client) => client.conversations())
}

export function useConversation(conv: string): Conversation | undefined {
  return useOfConversation(conv, (client) => client.conversation(conv))
}

/** The entries of a conversation that the client holds, oldest first. */
export function useMessages(conv: string): readonly Message[] {
  return useOfConversation(conv, (client) => client.messages(conv))
}

/**
 * A HistoryWindow of a conversation, which begins at the newest entries. `window` moves it; `view` is its
 * content. Only one component at a time can use the window of a conversation.
 */
export function useHistory(conv: string): { readonly window: HistoryWindow; readonly view: HistoryView } {
  const client = useClient()
  const window = useMemo(() => new HistoryWindow(client, conv), [client, conv])
  return { window, view: useSyncExternalStore(window.subscribe, window.view, window.view) }
}

/** The pending messages to a conversation: under way, or failed and not discarded. */
export function usePending(conv: string): readonly Outgoing[] {
  return useOfConversation(conv, (client) => client.pending(conv))
}

/** The pending messages to a user, even before the direct conversation exists. */
export function usePendingTo(user: string): readonly Outgoing[] {
  return useSnapshot(ofPending, (client) => client.pendingTo(user))
}

/** The quote of an entry that another one answers. */
export function useQuote(conv: string, seq: number): Quoted {
  return useOfConversation(conv, (client) => client.quote(conv, seq))
}

/** The counts of unread messages. */
export function useUnread(): Unread {
  return useSnapshot(ofUnread, (client) => client.unread())
}

/** The presence of a watched user. */
export function usePresence(user: string): Presence | undefined {
  return useSnapshot(ofPresence, (client) => client.presence(user))
}

/** The newest signals of others. */
export function useSignals(): readonly Signal[] {
  return useSnapshot(ofSignals, (client) => client.signals())
}

/** The value of a setting: of a conversation, of another user, or of the account. */
export function useSetting(conv: string, user: string, name: string): string {
  return useSnapshot(ofAccount, (client) => client.setting(conv, user, name))
}

/** All contacts and waiting requests, ascending by user. */
export function useContacts(): readonly Contact[] {
  return useSnapshot(ofAccount, (client) => contactsOf(client).list())
}

/** What another user is; undefined: not a contact, and no request waits. */
export function useContact(user: string): Contact | undefined {
  return useSnapshot(ofAccount, (client) => contactsOf(client).get(user))
}

/**
 * The profile of a user; undefined: it is not known, or the user is ''. The component shows the user, so the profile is
 * asked for. conv: the conversation in which it does; see Profiles.want.
 */
export function useProfile(user: string, conv = ''): Profile | undefined {
  const profiles = useContext(ProfilesContext)
  if (!profiles) throw new Error('the PetrelProvider around this component has no profiles')
  const profile = useSyncExternalStore(profiles.subscribe, () => profiles.get(user), () => profiles.get(user))
  const dropped = profile === undefined
  useEffect(() => profiles.want(user, { conv }), [profiles, user, conv, dropped])
  return profile
}
