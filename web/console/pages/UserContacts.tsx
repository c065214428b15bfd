import { type ReactElement, useState } from 'react'
import { Button, Field } from '../../ui/index.js'
import { call, useCall } from '../call.js'
import { time } from '../formats.js'
import { useTranslation } from '../i18n/index.js'
import { Change } from '../parts/Change.js'
import { Link, Mark, Part } from '../parts/Facts.js'
import { Table } from '../parts/Table.js'
import { Trouble } from '../parts/Trouble.js'
import type { ContactJson } from '../wire/types_gen.js'

interface Props {
  readonly tenant: string
  readonly user: string
}

/** The contacts of a user and the requests that wait, in pages, and dialogs to add a contact and to end one. Spec: P-14.7, P-14.10. */
export function UserContacts({ tenant, user }: Props): ReactElement {
  const tr = useTranslation()
  const { t } = tr
  const [after, setAfter] = useState('')
  const { answer, error, again } = useCall('AdminService/ListContacts', { tenant, user, ...(after && { after }) })
  const [adding, setAdding] = useState(false)
  const [ending, setEnding] = useState('')
  const rows = (answer?.contacts ?? []).filter((c) => c.sinceMs || c.sentMs || c.receivedMs) // later pages also name removed ones
  const next = answer?.next ?? '0'
  const close = (): void => {
    setAdding(false)
    setEnding('')
    again()
  }
  const actions = <>{after && <Button small onClick={() => setAfter('')}>{t('firstPage')}</Button>}{next !== '0' && <Button small onClick={() => setAfter(next)}>{t('nextPage')}</Button>}<Button small onClick={() => setAdding(true)}>{t('addContact')}</Button></>
  const state = (c: ContactJson): ReactElement => c.sinceMs ? <Mark look="good">{t('isContact')}</Mark> : <Mark look="quiet">{t(c.sentMs ? 'hasAsked' : 'isAsked')}</Mark>
  return (
    <Part title={t('contacts')} actions={actions}>
      {error && <Trouble error={error} />}
      <Table label={t('contacts')} rows={rows} keyOf={(c) => c.user ?? ''} empty={answer ? t('noContacts') : t('loading')} columns={[
        { title: t('user'), cell: (c) => <Link page="users" id={c.user ?? ''} query={{ tenant }}>{c.user}</Link> }, { title: t('state'), cell: state },
        { title: t('contactSince'), cell: (c) => time(c.sinceMs ?? c.sentMs ?? c.receivedMs, tr) }, { title: t('remarkOrGreeting'), wide: true, cell: (c) => c.remark || c.greeting || '' },
        { title: t('action'), action: true, cell: (c) => <Button small look="danger" onClick={() => setEnding(c.user ?? '')}>{t('endContact')}</Button> },
      ]} />
      {adding && <AddContact tenant={tenant} user={user} onClose={close} />}
      {ending && <Change danger title={t('endContactTitle', { user, other: ending })} text={t('endContactText')} changes={[{ name: ending, from: t('isContact'), to: t('none') }]} action={t('endContact')} done={t('doneContacts')} run={(requestId) => call('AdminService/SetContacts', { tenant, pairs: [{ user, other: ending }], end: true, requestId })} onClose={close} />}
    </Part>
  )
}

function AddContact({ tenant, user, onClose }: Props & { readonly onClose: () => void }): ReactElement {
  const { t } = useTranslation()
  const [other, setOther] = useState('')
  return (
    <Change title={t('addContactTitle', { user })} text={t('addContactText')} changes={[{ name: other || t('user'), from: t('none'), to: t('isContact') }]} action={t('addContact')} done={t('doneContacts')} ready={other !== ''} run={(requestId) => call('AdminService/SetContacts', { tenant, pairs: [{ user, other }], requestId })} onClose={onClose}>
      <Field label={t('user')} value={other} onChange={(e) => setOther(e.target.value.trim())} />
    </Change>
  )
}
