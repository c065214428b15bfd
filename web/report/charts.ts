import uPlot from 'uplot'
import type { Texts } from './texts.js'

export interface Line { name: string; values: (number | null)[]; color: string; dash?: boolean }

const drawn: uPlot[] = []

/** Destroys all charts. It is called before the page is drawn anew. */
export function clearCharts(): void {
  for (const c of drawn.splice(0)) c.destroy()
}

/** Makes each chart as wide as the element that contains it. */
export function fitCharts(): void {
  for (const c of drawn) c.setSize({ width: c.root.parentElement?.clientWidth ?? c.width, height: c.height })
}

/** Returns the value of a colour token in the present theme, for a canvas. */
export function color(name: string): string {
  const probe = document.createElement('span') // light-dark() is resolved on an element only
  probe.style.color = `var(--${name})`
  document.body.appendChild(probe)
  const c = getComputedStyle(probe).color
  probe.remove()
  return c
}

interface Options { x: number[]; xName: string; lines: Line[]; height?: number; log?: boolean; unit: string; xAxis?: (v: number) => string; xTicks?: number[]; time?: boolean; hooks?: uPlot.Hooks.Arrays; range?: [number, number] }

function axis(): Partial<uPlot.Axis> {
  const quiet = color('text-quiet')
  return { stroke: quiet, grid: { stroke: color('grid'), width: 1 }, ticks: { stroke: color('grid'), width: 1 }, font: `12px ${getComputedStyle(document.body).fontFamily}`, labelFont: `12px ${getComputedStyle(document.body).fontFamily}` }
}

/**
 * Draws a chart of lines into an element. The x axis has the seconds of a run, or values that xAxis formats. The
 * legend shows the values at the pointer. On a log axis, values of 0 are gaps.
 */
export function lines(into: HTMLElement, x: Texts, o: Options): void {
  const value = (v: number | null) => v === null || Number.isNaN(v) ? '–' : `${x.number(v)}${o.unit === '' ? '' : ` ${o.unit}`}`
  const powers = (_u: uPlot, all: number[]) => all.map((v) => Number.isInteger(Math.round(Math.log10(v) * 1e6) / 1e6) ? v : null) // labels and grid lines at powers of ten only: lines at all values would fill a log axis
  const chart = new uPlot({
    width: into.clientWidth || 600, height: o.height ?? 220,
    scales: { x: { time: o.time === true }, y: o.log ? { distr: 3, ...(o.range ? { range: o.range } : {}) } : { range: (_u, _min, max) => [0, max > 0 ? max * 1.08 : 1] } },
    axes: [
      { ...axis(), ...(o.xAxis ? { space: 90, values: (_u: uPlot, all: number[]) => all.map(o.xAxis!) } : {}), ...(o.xTicks ? { splits: () => o.xTicks! } : {}) },
      { ...axis(), size: 64, values: (_u, all: (number | null)[]) => all.map((v) => v === null ? '' : x.number(v)), ...(o.log ? { filter: powers, grid: { ...axis().grid, filter: powers }, ticks: { ...axis().ticks, filter: powers } } : {}) },
    ],
    series: [
      { label: o.xName, value: (_u, v: number | null) => v === null ? '' : o.xAxis ? o.xAxis(v) : `${x.number(v)} ${x.t('seconds')}` },
      ...o.lines.map((l) => ({ label: l.name, stroke: color(l.color), width: 2, ...(l.dash ? { dash: [5, 4] } : {}), points: { show: o.x.length < 3 || o.time === true }, value: (_u: uPlot, v: number | null) => value(v) })),
    ],
    cursor: { y: false, points: { size: 7 } }, ...(o.hooks ? { hooks: o.hooks } : {}),
  }, [o.x, ...o.lines.map((l) => o.log ? l.values.map((v) => v === null || v <= 0 ? null : v) : l.values)] as uPlot.AlignedData, into)
  drawn.push(chart)
}

/**
 * Draws a heat map of latency: a column for each second, a field for each step of ladder. A field is the darker, the
 * more messages had that latency in that second. A line shows the median of each second. Without messages nothing is
 * drawn.
 */
export function heat(into: HTMLElement, x: Texts, seconds: number[], rungs: number[][], ladder: number[], unit: string): void {
  const used = rungs.flatMap((r) => r.flatMap((n, i) => n > 0 ? [i] : []))
  if (used.length === 0) return
  const [low, high] = [Math.min(...used), Math.max(...used)]
  const most = Math.max(...rungs.flat())
  const paint = color('chart-1')
  const draw = (u: uPlot) => {
    const width = seconds.length > 1 ? (u.valToPos(seconds[1]!, 'x', true) - u.valToPos(seconds[0]!, 'x', true)) : u.bbox.width
    u.ctx.save()
    u.ctx.beginPath()
    u.ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height)
    u.ctx.clip()
    u.ctx.fillStyle = paint
    rungs.forEach((counts, s) => counts.forEach((n, i) => {
      if (n === 0) return
      const right = u.valToPos(seconds[s]!, 'x', true), top = u.valToPos(ladder[i + 1] ?? ladder[i]! * 1.4, 'y', true), bottom = u.valToPos(ladder[i]!, 'y', true)
      u.ctx.globalAlpha = 0.06 + 0.94 * Math.sqrt(n / most)
      u.ctx.fillRect(right - width, top, Math.max(1, width - 1), Math.max(1, bottom - top - 1))
    }))
    u.ctx.restore()
  }
  lines(into, x, {
    xName: x.t('moment'), x: [seconds[0]! - (seconds.length > 1 ? seconds[1]! - seconds[0]! : 1), ...seconds], log: true, unit, range: [ladder[low]!, ladder[high + 1] ?? ladder[high]! * 1.4],
    lines: [{ name: x.t('p50'), values: [null, ...rungs.map((r) => middle(r, ladder))], color: 'text' }], hooks: { drawAxes: [draw] },
  })
}

/** Returns the median of one second: the geometric middle of the step that contains it, or null if counts are all 0. */
function middle(counts: number[], ladder: number[]): number | null {
  const half = counts.reduce((a, b) => a + b, 0) / 2
  let sum = 0
  for (const [i, n] of counts.entries()) if ((sum += n) >= half && n > 0) return Math.sqrt(ladder[i]! * (ladder[i + 1] ?? ladder[i]!))
  return null
}

/** Returns a drawing of rows of dots on one scale: a row for each element of rows, a dot for each value. */
export function dots(rows: { values: number[]; color: string }[]): SVGElement {
  const ns = 'http://www.w3.org/2000/svg'
  const all = rows.flatMap((r) => r.values)
  const [low, high] = [Math.min(...all), Math.max(...all)]
  const svg = document.createElementNS(ns, 'svg')
  svg.setAttribute('viewBox', '0 0 120 24')
  svg.setAttribute('class', 'dots')
  svg.setAttribute('aria-hidden', 'true')
  rows.forEach((r, row) => r.values.forEach((v) => {
    const c = document.createElementNS(ns, 'circle')
    c.setAttribute('cx', String(high > low ? 5 + 110 * (v - low) / (high - low) : 60))
    c.setAttribute('cy', String(7 + 10 * row))
    c.setAttribute('r', '3.2')
    c.setAttribute('class', r.color)
    svg.appendChild(c)
  }))
  return svg
}
