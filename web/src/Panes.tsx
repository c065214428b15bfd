import { useStatus } from '@petrel-im/sdk/react'
import { type ReactElement, type ReactNode, useCallback } from 'react'
import { OpenConv } from './account/useName.js'
import { ChatView } from './chat/ChatView.js'
import { ConnectionLine, ConnectionText, useConnectionText } from './connection.js'
import { useGo, useRoute } from './environment.js'
import { Later } from './Later.js'
import { useNarrow } from './useNarrow.js'
import { NoChat } from './NoChat.js'
import { isListed } from './sidebar/chatList.js'
import { Welcome } from './sidebar/Welcome.js'
import { useChat, useOfClient } from './clientSnapshot.js'
import './app.css'

interface PanesProps {
  readonly sidebar?: ReactNode // absent: one conversation is shown, without a list
  readonly panel?: ReactNode // shown in place of the chat
  readonly part?: boolean // the panes are part of a page that has its own main element
}

const loadInfo = () => import('./parts.js').then((m) => m.InfoPanel)

/** The list, the chat and the info panel beside each other, as many as there is room for. */
export function Panes({ sidebar, panel, part }: PanesProps): ReactElement {
  const route = useRoute()
  const { conv, user, person } = route
  const opened = route.info || person !== ''
  const open = useChat(conv, user)?.id ?? ''
  const go = useGo()
  const closeInfo = useCallback(() => go({ ...route, info: false, person: '' }, true), [go, route])
  const connection = useConnectionText()
  const some = useOfClient((c) => c.conversations().some(isListed))
  const { synced } = useStatus() // before that the list may be incomplete
  const narrow = useNarrow() // one pane only: the list shows the welcome
  const chat = conv !== '' || user !== ''
  const known = useOfClient((c) => user !== '' || c.conversation(conv) !== undefined)
  const info = opened && known
  const key = user ? `@${user}` : conv
  const main = panel || <main className={chat ? 'main' : 'main main-none'} role={part ? 'group' : undefined}>{chat ? <ChatView key={key} conv={conv} peer={user} /> : some ? <NoChat /> : synced && !narrow && <Welcome />}</main>
  return (
    <ConnectionText value={connection}>
      {!sidebar && <ConnectionLine />}
      <div className={`panes${chat || panel ? ' panes-main' : ''}${chat && info ? ' panes-info' : ''}${sidebar ? '' : ' panes-alone'}`}>
        {sidebar}
        <OpenConv value={open}>{main}</OpenConv>
        {chat && info && <OpenConv value={open}><Later key={`${key} ${person}`} load={loadInfo} of={{ conv, peer: user, person }} onFailed={closeInfo} /></OpenConv>}
      </div>
    </ConnectionText>
  )
}
