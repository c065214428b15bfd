import { type KeyboardEvent, type ReactElement, type ReactNode, useState } from 'react'
import { Button } from '../../ui/index.js'
import { narrow, useAddress } from '../address.js'
import type { CallError } from '../call.js'
import { useTranslation } from '../i18n/index.js'
import { Trouble } from './Trouble.js'

export interface Column<Row> {
  readonly title: string
  readonly cell: (row: Row) => ReactNode
  readonly text?: (row: Row) => string | number // the value in the CSV file; absent: the file lacks the column
  readonly end?: boolean // aligned to the end, for numbers
  readonly wide?: boolean // takes the remaining width
  readonly action?: boolean // has the actions on the row: at the end, always in view
  readonly order?: string // the value of `by` in the address when the server orders by this column; absent: it cannot
}

/** The order of the rows: the column, and the direction. */
export interface Order {
  readonly by: string
  readonly down: boolean
}

/**
 * Returns the order from the address: `by` and `order`. Without `order` in it, down says whether the order is
 * descending.
 */
export function useOrder(down = false): Order {
  const { by = '', order = '' } = useAddress().query
  return { by, down: order === '' ? down : order === 'down' }
}

/** A page of rows, and where the next one begins; '': there is none. */
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

/**
 * The head of a column. If the server can order by the column, it is a button, which orders by it or reverses the
 * order.
 */
function Head({ title, className, by, order }: { readonly title: string; readonly className: string | undefined; readonly by: string | undefined; readonly order: Order | undefined }): ReactElement {
  if (by === undefined || !order) return <th scope="col" className={className}>{title}</th>
  const now = by === order.by
  return (
    <th scope="col" className={className} aria-sort={now ? order.down ? 'descending' : 'ascending' : undefined}>
      <button type="button" className="sort" onClick={() => narrow({ by, order: now && !order.down ? 'down' : 'up', from: '' })}>{title}<span aria-hidden="true">{now ? order.down ? ' ▼' : ' ▲' : ''}</span></button>
    </th>
  )
}

/** A table. Arrow up and down move the focus from row to row, to the first link or button. */
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

const csvMost = 10_000 // the most rows; for more there is the command line

/**
 * Returns a cell of a CSV file. A spreadsheet would run a text that begins like a formula, so such a text gets an
 * apostrophe in front.
 */
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
  setTimeout(() => URL.revokeObjectURL(url), 10_000) // by then the browser has begun to read it
}

interface ListingProps<Row> extends Omit<TableProps<Row>, 'rows'> {
  readonly name: string // name of the CSV file
  readonly page: Page<Row> | undefined // the page that the address names
  readonly error: CallError | undefined
  readonly load: (from: string) => Promise<Page<Row>> // loads the page that begins at from; '': the first one
}

/**
 * A table whose pages the server provides, with buttons for the first page, the next page, and a CSV file of up to
 * csvMost rows of all pages. `from` in the address says where the page begins.
 */
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
