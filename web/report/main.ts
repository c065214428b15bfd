import 'uplot/dist/uPlot.min.css'
import '../ui/tokens.css'
import './report.css'
import { clearCharts, fitCharts } from './charts.js'
import type { Data } from './data.js'
import { h } from './dom.js'
import { textsOf, type Language } from './texts.js'
import { drawComparison, drawHistory } from './sets.js'
import { drawCluster, drawEstimate, drawKnee, drawReliability, drawRun, drawStory } from './run.js'

const data = JSON.parse(document.getElementById('data')!.textContent!) as Data
const root = document.getElementById('report')!
const asked = new URLSearchParams(location.hash.slice(1)) // #lang=zh&theme=dark
let language: Language = asked.get('lang') === 'zh' || (asked.get('lang') === null && navigator.language.toLowerCase().startsWith('zh')) ? 'zh' : 'en'
let theme = asked.get('theme') ?? 'system'

function draw(): void {
  const x = textsOf(language)
  if (theme === 'system') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = theme
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en'
  clearCharts()
  const choose = (label: string, value: string, all: [string, string][], then: (v: string) => void) => h('select', { 'aria-label': label, onchange: (e) => { then((e.target as HTMLSelectElement).value); draw() } },
    all.map(([v, name]) => h('option', { value: v, selected: v === value }, name)))
  const choices = h('div', { class: 'choices' },
    choose(x.t('language'), language, [['en', 'English'], ['zh', '中文']], (v) => { language = v as Language }),
    choose(x.t('theme'), theme, [['system', x.t('system')], ['light', x.t('light')], ['dark', x.t('dark')]], (v) => { theme = v }))
  const page = h('main', { class: 'page' })
  root.replaceChildren(page) // first, because the charts that are drawn below take the width of their place in the page
  switch (data.kind) {
    case 'run': drawRun(page, x, choices, data.report, data.problems ?? []); break
    case 'cluster': drawCluster(page, x, choices, data.runs, data.problems ?? []); break
    case 'story': drawStory(page, x, choices, data.story, data.problems ?? []); break
    case 'estimate': drawEstimate(page, x, choices, data.estimate); break
    case 'reliability': drawReliability(page, x, choices, data.reliability, data.problems ?? []); break
    case 'knee': drawKnee(page, x, choices, data.knee); break
    case 'comparison': drawComparison(page, x, choices, data.comparison); break
    case 'history': drawHistory(page, x, choices, data.history); break
  }
  document.title = page.querySelector('h1')?.textContent ?? 'Petrel'
}

draw()
addEventListener('resize', fitCharts)
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw)
// The printed page has the light theme, because paper is white. Afterwards the chosen theme comes back.
let shown = ''
addEventListener('beforeprint', () => { shown = theme; theme = 'light'; document.documentElement.classList.add('paper'); draw() })
addEventListener('afterprint', () => { theme = shown; document.documentElement.classList.remove('paper'); draw() })
