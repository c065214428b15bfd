import { useStatus } from '@petrel-im/sdk/react'
import type { ReactElement, ReactNode } from 'react'
import { ChatView } from './chat/ChatView.js'
import { ConnectionLine, ConnectionText, useConnectionText } from './connection.js'
import { useRoute } from './environment.js'
import { InfoPanel } from './info/InfoPanel.js'
import { useNarrow } from './narrow.js'
import { NoChat } from './NoChat.js'
import { isListed } from './sidebar/list.js'
import { Welcome } from './sidebar/Welcome.js'
import { useOfClient } from './snapshot.js'
import './app.css'

interface PanesProps {
  readonly sidebar?: ReactNode // none: one conversation is shown, and no list of others
  readonly panel?: ReactNode // stands where the chat does
  readonly part?: boolean // of a page of somebody else, who says what is main in it
}

/** The list, the chat beside it, and what is known of it: as many as there is room for. */
export function Panes({ sidebar, panel, part }: PanesProps): ReactElement {
  const { conv, user, info: opened } = useRoute()
  const connection = useConnectionText()
  const some = useOfClient((c) => c.conversations().some(isListed))
  const { synced } = useStatus() // before that nobody knows whether there are conversations
  const narrow = useNarrow() // then the list has it
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
        {main}
        {chat && info && <InfoPanel key={key} conv={conv} peer={user} />}
      </div>
    </ConnectionText>
  )
}
