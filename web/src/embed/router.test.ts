import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Route } from '../route.js'
import { ElementRouter } from './router.js'

test('another conversation is shown if the page lets it; what belongs to the same one needs no leave', () => {
  const asked: Route[] = []
  let may = false
  const router = new ElementRouter((to) => {
    asked.push(to)
    return may
  })
  let changes = 0
  const end = router.subscribe(() => changes++)
  router.show({ account: 'alice', user: 'bob' })
  router.go({ account: 'alice', user: 'bob', info: true })
  assert.deepEqual([router.route().info, asked.length, changes], [true, 0, 2])
  router.go({ account: 'alice', conv: 'g' })
  assert.deepEqual([router.route().user, router.route().info, asked.at(-1)?.conv], ['bob', true, 'g'])
  may = true
  router.go({ account: 'alice', conv: 'g', panel: 'settings' }) // an element has no such panel
  assert.deepEqual(router.route(), { account: 'alice', conv: 'g', user: '', info: false, person: '', thread: 0, panel: '' })
  end()
  router.go({ account: 'alice' })
  assert.equal(changes, 3)
})
