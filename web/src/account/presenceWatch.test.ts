import assert from 'node:assert/strict'
import { test } from 'node:test'
import { watchFor } from './presenceWatch.js'

test('users are watched for as long as one view wants them, at most 200', async () => {
  const told: (readonly string[])[] = []
  const watch = watchFor({ watch: (users) => told.push(users) })
  const list = watch(['bob', 'carol'])
  const chat = watch(['carol', 'dave'])
  await Promise.resolve()
  assert.deepEqual(told, [['bob', 'carol', 'dave']])
  list()
  const other = watch(['erin'])
  await Promise.resolve()
  assert.deepEqual(told.at(-1), ['carol', 'dave', 'erin'])
  chat()
  other()
  watch(Array.from({ length: 300 }, (_, i) => `u${i}`))
  await Promise.resolve()
  assert.equal(told.at(-1)?.length, 200)
  assert.equal(told.length, 3)
})
