import type { Device } from '@petrel-im/sdk'
import { useClient, useStatus } from '@petrel-im/sdk/react'
import { type ReactElement, useCallback, useEffect, useState } from 'react'
import { Dialog } from '../../ui/Dialog.js'
import { Button, Field, Icon, IconButton, type IconName, RowButton, Spinner, toast } from '../../ui/index.js'
import { useSession } from '../account/SessionContext.js'
import { thrownText } from '../chat/failureText.js'
import { fullDate } from '../i18n/dates.js'
import { type AnyKey, useLaterTranslation } from '../i18n/useLaterTranslation.js'
import { ConfirmDialog } from '../info/ConfirmDialog.js'
import { go } from '../route.js'
import './settings.css'

/** The devices that are logged in to the account. */
export function DevicesView(): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const { user } = useSession()
  const { state } = useStatus()
  const [devices, setDevices] = useState<readonly Device[] | undefined>(undefined)
  const [naming, setNaming] = useState<Device | undefined>(undefined)
  const [asking, setAsking] = useState<Device | 'others' | undefined>(undefined)
  const read = useCallback(() => {
    client.devices().then((all) => setDevices(all.filter((d) => !d.revoked)), (why: unknown) => toast(thrownText(why, t)))
  }, [client, t])
  useEffect(() => {
    if (state === 'live') read()
  }, [read, state])
  const others = devices?.filter((d) => !d.current) ?? []
  const revoke = async (of: readonly Device[]): Promise<void> => {
    for (const d of of) await client.revokeDevice(d.id)
    read()
  }
  return (
    <main className="settings">
      <header className="chat-header">
        <IconButton icon="back" label={t('back')} onClick={() => go({ account: user, panel: 'settings' })} />
        <h1 className="settings-title">{t('devices')}</h1>
      </header>
      <div className="settings-body">
        {!devices && state === 'live' && <Spinner label={t('loading')} />}
        {state !== 'live' && !devices && <p className="quiet">{t('errorOffline')}</p>}
        {devices && (
          <section className="card">
            <ul>{devices.map((d) => <li key={d.id} className="row"><DeviceLine device={d} onName={() => setNaming(d)} onRevoke={() => setAsking(d)} /></li>)}</ul>
            {devices.length === 0 && <p className="info-note">{t('noDevices')}</p>}
            {others.length > 0 && <RowButton icon="exit" danger onClick={() => setAsking('others')}>{t('logOutOthers')}</RowButton>}
          </section>
        )}
      </div>
      {asking === 'others' && <ConfirmDialog text={t('logOutOthersQuestion', { n: others.length })} yes="logOutOthers" act={() => revoke(others)} onClose={() => setAsking(undefined)} />}
      {asking && asking !== 'others' && <ConfirmDialog text={t('logOutDeviceQuestion', { name: nameOf(asking) })} yes="logOut" act={() => revoke([asking])} onClose={() => setAsking(undefined)} />}
      {naming && <NameDialog device={naming} onClose={() => { setNaming(undefined); read() }} />}
    </main>
  )
}

function nameOf({ name, kind, id }: Device): string {
  return name || kind || id
}

/**
 * The names and icons of kinds of devices. Applications choose their kinds freely: an unknown kind is shown as it is.
 */
const kinds: readonly (readonly [RegExp, IconName, AnyKey])[] = [
  [/tablet|ipad/i, 'tablet', 'kindTablet'], [/phone|ios|android|mobile/i, 'phone', 'kindPhone'], [/web|browser/i, 'globe', 'kindWeb'], [/desktop|mac|windows|linux|pc/i, 'device', 'kindDesktop'], [/cli|terminal|bot|server/i, 'terminal', 'kindProgram'],
]

function DeviceLine({ device: d, onName, onRevoke }: { readonly device: Device; readonly onName: () => void; readonly onRevoke: () => void }): ReactElement {
  const translation = useLaterTranslation()
  const { t } = translation
  const [, icon, kind] = kinds.find(([pattern]) => pattern.test(d.kind)) ?? [undefined, 'device', undefined] as const
  return (
    <>
      <span className="device-icon"><Icon name={icon} /></span>
      <span className="row-text">
        <span className="cut device-name">{nameOf(d)}{d.current && <span className="this-device"> {t('thisDevice')}</span>}</span>
        <span className="row-note cut">{kind ? t(kind) : d.kind}{d.client && ` · ${d.client}`}</span>
        <span className="row-note cut">{d.sessions > 0 ? <span className="online">{t('online')}</span> : t('loggedInAt', { when: fullDate(d.loginMs, translation) })}</span>
        <span className="device-tools">
          <Button small onClick={onName}>{t('rename')}</Button>
          {!d.current && <Button small look="danger" onClick={onRevoke}>{t('logOut')}</Button>}
        </span>
      </span>
    </>
  )
}

function NameDialog({ device, onClose }: { readonly device: Device; readonly onClose: () => void }): ReactElement {
  const { t } = useLaterTranslation()
  const client = useClient()
  const [text, setText] = useState(device.name)
  const [error, setError] = useState<string | undefined>(undefined)
  return (
    <Dialog title={t('rename')} closeLabel={t('close')} onClose={onClose} foot={<Button look="primary" type="submit" form="device" disabled={text.trim() === ''}>{t('save')}</Button>}>
      <form id="device" className="dialog-body" onSubmit={(e) => {
        e.preventDefault()
        client.renameDevice(device.id, text.trim()).then(onClose, (why: unknown) => setError(thrownText(why, t)))
      }}>
        <Field label={t('deviceName')} value={text} maxLength={64} error={error} onChange={(e) => setText(e.target.value)} />
      </form>
    </Dialog>
  )
}
