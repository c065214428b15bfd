import type { ReactElement, ReactNode } from 'react'
import { addressOf, go } from '../address.js'

/** A list of names and values. */
export function Facts({ of }: { readonly of: readonly (readonly [string, ReactNode])[] }): ReactElement {
  return <dl className="facts">{of.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
}

/** A link inside the console. It does not reload the page, unless it is opened in another tab. */
export function Link({ page, id = '', query = {}, current, className, children }: { readonly page: string; readonly id?: string; readonly query?: Readonly<Record<string, string>>; readonly current?: boolean; readonly className?: string; readonly children: ReactNode }): ReactElement {
  const to = addressOf(page, id, query)
  return (
    <a
      href={to} className={className} aria-current={current ? 'page' : undefined}
      onClick={(e) => {
        if (e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return
        e.preventDefault()
        go(to)
      }}
    >{children}</a>
  )
}

const guide = 'https://github.com/petrel-im/petrel/blob/main/docs/guide/'

/** A link to a page of the guide. */
export function Guide({ page, children }: { readonly page: string; readonly children: ReactNode }): ReactElement {
  return <a href={guide + page} target="_blank" rel="noreferrer">{children}</a>
}

export function Part({ title, actions, children }: { readonly title: string; readonly actions?: ReactNode; readonly children: ReactNode }): ReactElement {
  return <section className="part"><div className="part-head"><h2>{title}</h2>{actions}</div>{children}</section>
}

/** A word with a colour that shows how good it is. The word itself says it too. */
export function Mark({ look, children }: { readonly look: 'good' | 'warn' | 'bad' | 'quiet'; readonly children: ReactNode }): ReactElement {
  return <span className={`mark mark-${look}`}>{children}</span>
}
