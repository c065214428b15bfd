import type { ComponentType } from 'react'
import type { IconName } from '../ui/index.js'
import type { Key } from './i18n/index.js'
import { Audit } from './pages/Audit.js'
import { Cluster } from './pages/Cluster.js'
import { Backups } from './pages/Backups.js'
import { Conversations } from './pages/Conversations.js'
import { Keys } from './pages/Keys.js'
import { Limits } from './pages/Limits.js'
import { Log } from './pages/Log.js'
import { Operators } from './pages/Operators.js'
import { Overview } from './pages/Overview.js'
import { Refusals } from './pages/Refusals.js'
import { Reports } from './pages/Reports.js'
import { Tenants } from './pages/Tenants.js'
import { Trace } from './pages/Trace.js'
import { Users } from './pages/Users.js'

export interface PageOfConsole {
  readonly page: string // in the address
  readonly title: Key
  readonly icon: IconName
  readonly scope: string // the scope that its calls need
  readonly View: ComponentType
}

/** All pages, in the order of the navigation. */
export const pages: readonly PageOfConsole[] = [
  { page: '', title: 'overview', icon: 'pulse', scope: 'server', View: Overview },
  { page: 'users', title: 'users', icon: 'person', scope: 'users', View: Users },
  { page: 'conversations', title: 'conversations', icon: 'people', scope: 'conversations', View: Conversations },
  { page: 'reports', title: 'reports', icon: 'flag', scope: 'messages', View: Reports },
  { page: 'trace', title: 'traceTitle', icon: 'path', scope: 'messages', View: Trace },
  { page: 'refusals', title: 'refusals', icon: 'ban', scope: 'server', View: Refusals },
  { page: 'log', title: 'log', icon: 'list', scope: 'server', View: Log },
  { page: 'audit', title: 'audit', icon: 'eye', scope: 'admin', View: Audit },
  { page: 'limits', title: 'limits', icon: 'gear', scope: 'server', View: Limits },
  { page: 'tenants', title: 'tenants', icon: 'bookmark', scope: 'users', View: Tenants },
  { page: 'operators', title: 'operators', icon: 'crown', scope: 'admin', View: Operators },
  { page: 'keys', title: 'keys', icon: 'key', scope: 'admin', View: Keys },
  { page: 'cluster', title: 'cluster', icon: 'server', scope: 'server', View: Cluster },
  { page: 'backups', title: 'backups', icon: 'archive', scope: 'backup', View: Backups },
]
