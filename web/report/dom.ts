type Child = Node | string | false | null | undefined | readonly Child[]

/**
 * Returns a new element with attributes and children. An attribute whose value is a function, such as onclick, adds it
 * as a listener of that event. true sets an empty attribute, false and undefined set none.
 */
export function h(tag: string, attributes: Record<string, string | boolean | undefined | ((e: Event) => void)> = {}, ...children: Child[]): HTMLElement {
  const e = document.createElement(tag)
  for (const [name, v] of Object.entries(attributes)) {
    if (typeof v === 'function') e.addEventListener(name.slice(2), v)
    else if (v !== undefined && v !== false) e.setAttribute(name, v === true ? '' : v)
  }
  add(e, children)
  return e
}

function add(to: Node, children: readonly Child[]): void {
  for (const c of children) {
    if (Array.isArray(c)) add(to, c as readonly Child[])
    else if (c) to.appendChild(typeof c === 'string' ? document.createTextNode(c) : c as Node)
  }
}

/**
 * Returns a table in a box. The first cell of a row is its heading; the others have the class figure, unless words is
 * true. An empty head leaves out the row of headings.
 */
export function table(head: string[], rows: (Child)[][], words = false): HTMLElement {
  const tr = (cells: Child[], tag: 'td' | 'th') => h('tr', {}, cells.map((c, i) => h(i === 0 ? 'th' : tag, { class: i > 0 && !words ? 'figure' : undefined, scope: tag === 'th' ? 'col' : i === 0 ? 'row' : undefined }, c)))
  return h('div', { class: 'table', tabindex: '0' }, h('table', {}, head.length > 0 && h('thead', {}, tr(head, 'th')), h('tbody', {}, rows.map((r) => tr(r, 'td')))))
}
