import { type KeyboardEvent, type ReactElement, type ReactNode, useState } from 'react'
import { Button } from '../../ui/index.js'
import { narrow, useAddress } from '../address.js'
import type { CallError } from '../call.js'
import { useTranslation } from '../i18n/index.js'
import { Trouble } from './Trouble.js'

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => ReactNode
  readonly text?: (row: Row) => string | number // of the CSV; without it the column is not in the file
  readonly end?: boolean // numbers stand at the end
  readonly wide?: boolean // takes the room that is left
  readonly action?: boolean // what can be done with the row: stands at the end, and stays in view
  readonly order?: string // the value of `by` in the address for which the server orders the rows by this column; without one it cannot
}

/** How the server has ordered the rows: by a column, and from which end. */
export interface Order {
  readonly by: string
  readonly down: boolean
}

/** The order that the address asks for, as `by` and `order`. */
export function useOrder(down = false): Order {
  const { by = '', order = '' } = useAddress().query
  return { by, down: order === '' ? down : order === 'down' }
}

/** A page of rows, and where the next one begins; '' where there is none. */
export interface Page<Row> {
  readonly rows: readonly Row[]
  readonly next: string
}

interface TableProps<Row> {
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  readonly empty: string
  readonly order?: Order
}

function classOf<Row>({ end, wide, action }: Column<Row>): string | undefined {
  return action ? 'end action' : end ? 'end' : wide ? 'wide' : undefined
}

/** The head of a column. By a column that the server can order by it is a button, which turns the order round if it is by this column already. */
function Head({ title, className, by, order }: { readonly title: string; readonly className: string | undefined; readonly by: string | undefined; readonly order: Order | undefined }): ReactElement {
  if (by === undefined || !order) return <th scope="col" className={className}>{title}</th>
  const now = by === order.by
  return (
    <th scope="col" className={className} aria-sort={now ? order.down ? 'descending' : 'ascending' : undefined}>
      <button type="button" className="sort" onClick={() => narrow({ by, order: now && !order.down ? 'down' : 'up', from: '' })}>{title}<span aria-hidden="true">{now ? order.down ? ' ▼' : ' ▲' : ''}</span></button>
    </th>
  )
}

/** Rows with a head. Up and down go from row to row, by their first link or button. */
export function Table<Row>({ label, columns, rows, keyOf, empty, order }: TableProps<Row>): ReactElement {
  const move = (e: KeyboardEvent<HTMLTableElement>): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key]
    const row = (e.target as Element).closest('tbody tr')
    if (!step || !row || e.altKey || e.ctrlKey || e.metaKey || (e.target as Element).matches('input, select, textarea')) return
    const next = step > 0 ? row.nextElementSibling : row.previousElementSibling
    const target = next?.querySelector<HTMLElement>('a, button')
    if (!target) return
    e.preventDefault()
    target.focus()
  }
  return (
    <div className="table-box" role="region" aria-label={label} tabIndex={0}>
      <table className="table" onKeyDown={move}>
        <caption className="unseen">{label}</caption>
        <thead><tr>{columns.map((c) => <Head key={c.title} title={c.title} className={classOf(c)} by={c.order} order={order} />)}</tr></thead>
        <tbody>
          {rows.map((row) => <tr key={keyOf(row)}>{columns.map((c) => <td key={c.title} className={classOf(c)} data-title={c.title}>{c.cell(row)}</td>)}</tr>)}
          {rows.length === 0 && <tr><td colSpan={columns.length} className="empty">{empty}</td></tr>}
        </tbody>
      </table>
    </div>
  )
}

const csvMost = 10_000 // rows; more are a job for the command line

/** A cell of a CSV. A program for tables would run what begins like a formula. */
function csvCell(value: string | number): string {
  const text = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

export function csvOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): string {
  const told = columns.filter((c) => c.text)
  return [told.map((c) => csvCell(c.title)), ...rows.map((row) => told.map((c) => csvCell(c.text?.(row) ?? '')))].map((line) => `${line.join(',')}\r\n`).join('')
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob(['\uFEFF', text], { type: 'text/csv;charset=utf-8' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 10_000) // the browser has begun to read it by then
}

interface ListingProps<Row> extends Omit<TableProps<Row>, 'rows'> {
  readonly name: string // of the CSV
  readonly page: Page<Row> | undefined // that the address asks for
  readonly error: CallError | undefined
  readonly load: (from: string) => Promise<Page<Row>> // of any page, '' for the first one
}

/** A table whose pages come from the server. Where the page begins is in the address, as `from`. */
export function Listing<Row>({ name, page, error, load, ...table }: ListingProps<Row>): ReactElement {
  const { t } = useTranslation()
  const { from = '' } = useAddress().query
  const [saving, setSaving] = useState(false)
  const save = async (): Promise<void> => {
    setSaving(true)
    const rows: Row[] = []
    try {
      for (let at = ''; ;) {
        const { rows: more, next } = await load(at)
        rows.push(...more)
        if (next === '' || rows.length >= csvMost) break
        at = next
      }
      download(`${name}.csv`, csvOf(table.columns, rows.slice(0, csvMost)))
    } finally {
      setSaving(false)
    }
  }
  return (
    <>
      {error && <Trouble error={error} />}
      {(page || !error) && <Table {...table} rows={page?.rows ?? []} empty={page ? table.empty : t('loading')} />}
      <div className="table-foot">
        <Button small disabled={from === ''} onClick={() => narrow({ from: '' })}>{t('firstPage')}</Button>
        <Button small disabled={!page?.next} onClick={() => narrow({ from: page?.next ?? '' })}>{t('nextPage')}</Button>
        <span className="space" />
        <Button small disabled={saving || !page || page.rows.length === 0} onClick={() => void save()}>{saving ? t('saving') : t('csv')}</Button>
      </div>
    </>
  )
}
