import { type ReactElement, useEffect, useRef } from 'react'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { usePreferences } from '../../src/preferences.js'
import { number } from '../formats.js'
import { useTranslation } from '../i18n/index.js'
import { lonely, tick } from './axis.js'

export interface Line {
  readonly name: string
  readonly color: string // name of a colour token
  readonly values: readonly (number | null)[]
}

interface ChartProps {
  readonly title: string
  readonly unit: string
  readonly times: readonly number[] // Unix seconds
  readonly lines: readonly Line[]
}

const heightPx = 150
const secondsUpToS = 600 // for a shorter period the axis shows seconds
const stepsS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800] // possible steps between two times on the axis
const timesPx = 26
const labelPx = 56 // width of a time; half of the last one is right of the chart

/** Returns a colour token in a form for a canvas. light-dark() is only resolved on an element. */
function color(name: string): string {
  const probe = document.createElement('span')
  probe.style.color = `var(--${name})`
  document.body.appendChild(probe)
  const c = getComputedStyle(probe).color
  probe.remove()
  return c
}

/**
 * A chart of lines over the last hour. It is built when it first comes into view, and anew when the language, the
 * theme, the unit or the lines change. It takes new values only while it is in view, because five charts a second
 * are much work for a phone.
 */
export function Chart({ title, unit, times, lines }: ChartProps): ReactElement {
  const tr = useTranslation()
  const { theme } = usePreferences()
  const box = useRef<HTMLDivElement>(null)
  const chart = useRef<uPlot>(undefined)
  const data = [times, ...lines.map((l) => l.values)] as unknown as uPlot.AlignedData
  const newest = useRef(data)
  newest.current = data
  const seen = useRef(false)
  const made = JSON.stringify([tr.tag, theme, unit, lines.map((l) => [l.name, l.color])])
  useEffect(() => {
    const element = box.current
    if (!element) return undefined
    const [, , , series] = JSON.parse(made) as [string, string, string, [string, string][]]
    const draw = (): void => {
      chart.current?.destroy()
      const quiet = color('text-quiet')
      const axis: uPlot.Axis = { stroke: quiet, grid: { stroke: color('line'), width: 1 }, ticks: { show: false }, font: `12px ${getComputedStyle(document.body).fontFamily}` }
      const at = new Intl.DateTimeFormat(tr.tag, { timeStyle: 'short', hourCycle: 'h23' })
      const told = (v: number | null | undefined): string => v === null || v === undefined ? '–' : `${number(v, tr)} ${unit}` // in the legend: the value at the pointer, or the newest one without a pointer
      const exact = new Intl.DateTimeFormat(tr.tag, { timeStyle: 'medium', hourCycle: 'h23' })
      chart.current = new uPlot({
        width: element.clientWidth || 300, height: heightPx, ms: 1e-3, padding: [null, labelPx / 2, null, null],
        scales: { y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
        axes: [{ ...axis, size: timesPx, space: 80, incrs: [...stepsS], values: (u, all) => all.map((v) => ((u.scales['x']?.max ?? 0) - (u.scales['x']?.min ?? 0) < secondsUpToS ? exact : at).format(v * 1000)) }, { ...axis, size: 52, values: (_u, all, _axis, _space, step) => all.map((v) => tick(v, step, tr)) }],
        series: [
          { value: (_u, v: number | null) => v === null ? '' : exact.format(v * 1000), label: tr.t('time') },
          ...series.map(([label, token]) => ({ label, stroke: color(token), width: 1.5, points: { show: false, size: 5, width: 1.5, fill: color(token), filter: (u: uPlot, line: number) => lonely(u.data[line] ?? []) }, spanGaps: false, value: (u: uPlot, v: number | null, line: number) => told(v ?? (u.cursor.idx == null ? u.data[line]?.at(-1) : undefined)) })),
        ],
        cursor: { y: false, drag: { x: false, y: false } }, legend: { live: true, markers: { fill: (_u, line) => color(series[line - 1]?.[1] ?? 'line') } },
      }, newest.current, element)
    }
    const look = new IntersectionObserver((entries) => {
      seen.current = entries.at(-1)?.isIntersecting ?? false
      if (!seen.current) return
      if (chart.current) chart.current.setData(newest.current)
      else draw()
    }, { root: element.closest('main'), rootMargin: `${heightPx}px` })
    look.observe(element)
    const fit = new ResizeObserver(() => chart.current?.setSize({ width: element.clientWidth, height: heightPx }))
    fit.observe(element)
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    const redraw = (): void => { if (chart.current) draw() }
    scheme.addEventListener('change', redraw)
    return () => {
      scheme.removeEventListener('change', redraw)
      fit.disconnect()
      look.disconnect()
      chart.current?.destroy()
      chart.current = undefined
    }
  }, [made, tr, unit])
  useEffect(() => {
    if (seen.current) chart.current?.setData(newest.current)
  }, [times])
  const last = lines.map((l) => `${l.name} ${number(l.values.at(-1) ?? 0, tr)} ${unit}`).join(', ')
  return (
    <div className="chart" role="img" aria-label={`${title}: ${last}`}>
      <p className="chart-title">{title} <span className="quiet">{unit}</span></p>
      <div ref={box} />
    </div>
  )
}
