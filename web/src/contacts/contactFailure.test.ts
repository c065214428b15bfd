import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Code, PetrelError } from '@petrel-im/sdk'
import { en } from '../i18n/en.js'
import { laterEn, laterZh } from '../i18n/laterTexts.js'
import { type Language, translationOf } from '../i18n/translation.js'
import type { AnyKey } from '../i18n/useLaterTranslation.js'
import { zh } from '../i18n/zh.js'
import { contactFailure } from './contactFailure.js'

const refused = (code: Code): PetrelError => new PetrelError({ kind: 'refused', code, message: 'x', hint: '', settled: true, retryable: false, retryAfterMs: 0, requestId: '', head: 0 })

test('a refusal about contacts says what it means for contacts, in both languages', () => {
  const said = (language: Language, code: Code): string => contactFailure(refused(code), translationOf<AnyKey>(language, language === 'en' ? { ...en, ...laterEn } : { ...zh, ...laterZh }).t)
  for (const [code, english, chinese] of [
    ['no_contact', /not there any more/, /不存在/], ['too_many_contacts', /as many contacts/, /上限/], ['forbidden', /only the operator/, /运营者/], ['rate_limited', /Wait a minute/, /一分钟/], ['no_user', /no such user/, /没有|不存在/],
  ] as const) {
    assert.match(said('en', code), english)
    assert.match(said('zh', code), chinese)
  }
})
