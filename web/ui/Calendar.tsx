import { type KeyboardEvent, type ReactElement, useEffect, useLayoutEffect, useRef, useState } from 'react'
import { isComposing } from './composing.js'
import { IconButton } from './controls.js'
import './calendar.css'

interface CalendarProps {
  readonly value: Date // the day that is marked at first
  readonly last: Date // later days cannot be chosen
  readonly tag: string // of the language
  readonly previousLabel: string
  readonly nextLabel: string
  readonly onChoose: (day: Date) => void // the beginning of the day in the local time zone
}

/**
 * The days of a month, to choose one. Arrows move by day and week, Home and End within a week, PageUp and PageDown
 * by month, with Shift by year. Enter chooses.
 */
export function Calendar({ value, last, tag, previousLabel, nextLabel, onChoose }: CalendarProps): ReactElement {
  const [day, setDay] = useState(() => startOf(value))
  const moved = useRef(false) // moved by a key, so the focus follows
  const marked = useRef<HTMLButtonElement>(null)
  useLayoutEffect(() => marked.current?.setAttribute('autofocus', ''), []) // an opening dialog focuses the element with autofocus; React does not set the attribute
  useEffect(() => {
    if (moved.current) marked.current?.focus()
    moved.current = false
  }, [day])
  const go = (to: Date): void => setDay(to > last ? startOf(last) : to)
  const press = (e: KeyboardEvent): void => {
    const to = isComposing(e) ? undefined : keyed(e, day, firstDayOf(tag))
    if (!to) return
    e.preventDefault()
    moved.current = true
    go(to)
  }
  const weeks = weeksOf(day, firstDayOf(tag))
  const name = (options: Intl.DateTimeFormatOptions, of: Date): string => new Intl.DateTimeFormat(tag, options).format(of)
  return (
    <div className="calendar">
      <div className="calendar-head">
        <IconButton icon="back" label={previousLabel} onClick={() => go(addMonths(day, -1))} />
        <span className="calendar-month" aria-live="polite">{name({ year: 'numeric', month: 'long' }, day)}</span>
        <IconButton icon="back" label={nextLabel} className="calendar-next" disabled={addMonths(new Date(day.getFullYear(), day.getMonth(), 1), 1) > last} onClick={() => go(addMonths(day, 1))} />
      </div>
      <table role="grid" aria-label={name({ year: 'numeric', month: 'long' }, day)} onKeyDown={press}>
        <thead><tr>{weeks[0]?.map((d) => <th key={d.getDay()} scope="col" abbr={name({ weekday: 'long' }, d)}>{name({ weekday: 'narrow' }, d)}</th>)}</tr></thead>
        <tbody>
          {weeks.map((week) => (
            <tr key={week[0]?.getTime()}>
              {week.map((d) => {
                const is = d.getTime() === day.getTime()
                return (
                  <td key={d.getTime()} aria-selected={is}>
                    {d.getMonth() === day.getMonth() && (
                      <button type="button" ref={is ? marked : null} tabIndex={is ? 0 : -1} disabled={d > last} aria-current={d.getTime() === startOf(last).getTime() ? 'date' : undefined} aria-label={name({ dateStyle: 'full' }, d)} onClick={() => onChoose(d)}>{d.getDate()}</button>
                    )}
                  </td>
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function startOf(d: Date): Date {
  return new Date(d.getFullYear(), d.getMonth(), d.getDate())
}

function addDays(d: Date, n: number): Date {
  return new Date(d.getFullYear(), d.getMonth(), d.getDate() + n)
}

/** Returns the same day of another month, or the last day of that month. */
export function addMonths(d: Date, n: number): Date {
  const length = new Date(d.getFullYear(), d.getMonth() + n + 1, 0).getDate()
  return new Date(d.getFullYear(), d.getMonth() + n, Math.min(d.getDate(), length))
}

/** Returns the day with which weeks begin, numbered as by Date.getDay. */
function firstDayOf(tag: string): number {
  const locale = new Intl.Locale(tag).maximize() as Intl.Locale & { getWeekInfo?: () => { readonly firstDay: number }; readonly weekInfo?: { readonly firstDay: number } }
  return ((locale.getWeekInfo?.() ?? locale.weekInfo)?.firstDay ?? 1) % 7
}

/** Returns the weeks of the month of a day, each with seven days; the outer ones may have days of other months. */
export function weeksOf(day: Date, firstDay: number): readonly (readonly Date[])[] {
  const first = new Date(day.getFullYear(), day.getMonth(), 1)
  const begin = addDays(first, -((first.getDay() - firstDay + 7) % 7))
  const weeks: Date[][] = []
  for (let d = begin; weeks.length === 0 || d.getMonth() === day.getMonth(); d = addDays(d, 7)) weeks.push(Array.from({ length: 7 }, (_, i) => addDays(d, i)))
  return weeks
}

function keyed(e: KeyboardEvent, day: Date, firstDay: number): Date | undefined {
  const inWeek = (day.getDay() - firstDay + 7) % 7
  switch (e.key) {
    case 'ArrowLeft': return addDays(day, -1)
    case 'ArrowRight': return addDays(day, 1)
    case 'ArrowUp': return addDays(day, -7)
    case 'ArrowDown': return addDays(day, 7)
    case 'Home': return addDays(day, -inWeek)
    case 'End': return addDays(day, 6 - inWeek)
    case 'PageUp': return addMonths(day, e.shiftKey ? -12 : -1)
    case 'PageDown': return addMonths(day, e.shiftKey ? 12 : 1)
    default: return undefined
  }
}
