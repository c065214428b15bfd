import type { ReactElement } from 'react'
import { useAddress } from '../address.js'
import { call, useCall } from '../call.js'
import { number, time } from '../formats.js'
import { named, type Translation, useTranslation } from '../i18n/index.js'
import { Link, Mark } from '../parts/Facts.js'
import { Filter } from '../parts/Filter.js'
import { type Column, Listing, type Page, useOrder } from '../parts/Table.js'
import type { ConversationInfoJson, ConvStateJson, ListConversationsResponseJson, ListUserConversationsResponseJson } from '../wire/types_gen.js'
import { Conversation, stateOf } from './Conversation.js'

const convLength = 21 // characters of a conversation id

/**
 * The search for conversations: groups by the beginning of their title, all of a user, or one by its id. With an id
 * in the address, the page of that conversation.
 */
export function Conversations(): ReactElement {
  const { id } = useAddress()
  return id === '' ? <List /> : <Conversation conv={id} key={id} />
}

function columnsOf(tr: Translation, tenant: string): readonly Column<ConversationInfoJson>[] {
  const { t } = tr
  const known = (c: ConversationInfoJson, v: string | number | undefined): string => c.unknown ? '–' : number(Number(v ?? 0), tr)
  return [
    { title: t('groupTitle'), order: '', wide: true, cell: (c) => <Link page="conversations" id={c.conv ?? ''} query={{ tenant }}>{c.title || c.conv}</Link>, text: (c) => c.title ?? '' },
    { title: t('conversationId'), cell: (c) => <code>{c.conv}</code>, text: (c) => c.conv ?? '' },
    { title: t('state'), cell: (c) => stateOf(c, tr), text: (c) => c.unknown ? 'unknown' : c.dissolved ? 'dissolved' : c.frozen ? 'frozen' : 'open' },
    { title: t('members'), end: true, cell: (c) => known(c, c.members), text: (c) => c.members ?? '' },
    { title: t('head'), end: true, cell: (c) => known(c, c.head), text: (c) => Number(c.head ?? 0) },
    { title: t('lastEntry'), cell: (c) => time(c.lastMs, tr), text: (c) => c.lastMs ? new Date(Number(c.lastMs)).toISOString() : '' },
    { title: t('owner'), cell: (c) => `${c.owner || '–'} · ${c.partition ?? 0}`, text: (c) => c.owner ?? '' },
  ]
}

function List(): ReactElement {
  const { t } = useTranslation()
  const { user = '' } = useAddress().query
  return (
    <div className="page">
      <header className="page-head"><h1>{t('conversations')}</h1></header>
      <div className="filters">{user === '' && <Filter name="prefix" label={t('searchTitle')} />}<Filter name="user" label={t('ofUser')} /><Filter name="tenant" label={t('tenantFilter')} /></div>
      <p className="quiet">{t(user === '' ? 'groupsText' : 'ofUserText')}</p>
      {user === '' ? <Groups /> : <OfUser user={user} />}
    </div>
  )
}

function columnsOfUser(tr: Translation, tenant: string, user: string): readonly Column<ConvStateJson>[] {
  const { t } = tr
  return [
    { title: t('conversation'), wide: true, cell: (c) => <Link page="conversations" id={c.conv ?? ''} query={{ tenant }}>{c.title || (c.peer ? `${user} – ${c.peer}` : c.conv)}</Link>, text: (c) => c.title || c.peer || '' },
    { title: t('kind'), cell: (c) => named(tr, 'kind', c.kind ?? ''), text: (c) => c.kind ?? '' },
    { title: t('conversationId'), cell: (c) => <code>{c.conv}</code>, text: (c) => c.conv ?? '' },
    { title: t('state'), cell: (c) => c.left ? <Mark look="quiet">{t('hasLeft')}</Mark> : c.frozen ? <Mark look="bad">{t('frozen')}</Mark> : <Mark look="good">{t('open')}</Mark>, text: (c) => c.left ? 'left' : c.frozen ? 'frozen' : 'open' },
    { title: t('head'), end: true, cell: (c) => number(Number(c.head ?? 0), tr), text: (c) => Number(c.head ?? 0) },
    { title: t('readTo'), end: true, cell: (c) => number(Number(c.read ?? 0), tr), text: (c) => Number(c.read ?? 0) },
  ]
}

/** The conversations of a user, direct ones included. It shows the other user of a direct one, and no messages. */
function OfUser({ user }: { readonly user: string }): ReactElement {
  const tr = useTranslation()
  const { tenant = '', from = '' } = useAddress().query
  const pageOf = (a: ListUserConversationsResponseJson): Page<ConvStateJson> => ({ rows: a.convs ?? [], next: a.token ?? '' })
  const request = (at: string): object => ({ tenant, user, ...at ? { token: at } : {} })
  const { answer, error } = useCall('AdminService/ListUserConversations', request(from))
  return <Listing name="conversations" label={tr.t('conversations')} columns={columnsOfUser(tr, tenant, user)} keyOf={(c) => c.conv ?? ''} empty={tr.t('noConversations')} page={answer && pageOf(answer)} error={error} load={async (at) => pageOf(await call('AdminService/ListUserConversations', request(at)))} />
}

function Groups(): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const { prefix = '', tenant = '', from = '' } = useAddress().query
  const order = useOrder()
  const isId = prefix.length === convLength && !/\s/.test(prefix)
  const pageOf = (a: ListConversationsResponseJson): Page<ConversationInfoJson> => ({ rows: a.conversations ?? [], next: a.token ?? '' })
  const request = (at: string, limit = 50): object => ({ tenant, titlePrefix: prefix, descending: order.down, limit, ...(at ? { token: at } : {}) })
  const { answer, error } = useCall('AdminService/ListConversations', request(from))
  return (
    <>
      {isId && <p><Link page="conversations" id={prefix} query={{ tenant }}>{t('openById', { conv: prefix })}</Link></p>}
      <Listing name="conversations" label={t('conversations')} order={order} columns={columnsOf(tr, tenant)} keyOf={(c) => c.conv ?? ''} empty={t('noConversations')} page={answer && pageOf(answer)} error={error} load={async (at) => pageOf(await call('AdminService/ListConversations', request(at, 200)))} />
    </>
  )
}
