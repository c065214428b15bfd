import { useClient } from '@petrel-im/sdk/react'
import type { ReactElement } from 'react'
import { Button, useToast } from '../../ui/index.js'
import { useName } from '../account/useName.js'
import { useTranslation } from '../i18n/index.js'
import { useOfClient } from '../clientSnapshot.js'
import { thrownText } from './failureText.js'

/** Says above the field that the other user is blocked, so no answer will come. */
export function BlockedLine({ user }: { readonly user: string }): ReactElement | null {
  const { t } = useTranslation()
  const client = useClient()
  const toast = useToast()
  const name = useName(user)
  const blocked = useOfClient((c) => c.blocked()).includes(user)
  if (!blocked) return null
  return (
    <div className="blocked-line">
      <span dir="auto">{t('blockedLine', { name })}</span>
      <Button small onClick={() => void client.block(user, false).catch((why: unknown) => toast(thrownText(why, t)))}>{t('unblock')}</Button>
    </div>
  )
}
