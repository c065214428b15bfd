import type { ReactElement } from 'react'
import { prefer, usePreferences } from '../../src/preferences.js'
import { useTranslation } from '../i18n/index.js'

/** The choice of language and theme, kept in this browser. */
export function Looks(): ReactElement {
  const { t } = useTranslation()
  const { language, theme } = usePreferences()
  return (
    <div className="looks">
      <select aria-label={t('language')} value={language} onChange={(e) => prefer({ language: e.target.value as 'auto' | 'en' | 'zh' })}>
        <option value="auto">{t('languageAuto')}</option><option value="en">English</option><option value="zh">简体中文</option>
      </select>
      <select aria-label={t('theme')} value={theme} onChange={(e) => prefer({ theme: e.target.value as 'auto' | 'light' | 'dark' })}>
        <option value="auto">{t('themeAuto')}</option><option value="light">{t('themeLight')}</option><option value="dark">{t('themeDark')}</option>
      </select>
    </div>
  )
}
