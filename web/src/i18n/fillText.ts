/** A text with its values. Between two Chinese signs there is no blank, as there is between a Chinese and a Latin one. */
export function fill(form: string, values: Readonly<Record<string, string | number>>): string {
  return form.replace(/(?<=(.?))( ?)\{(\w+)\}( ?)(?=(.?))/gu, (whole, before: string, blank: string, name: string, blankAfter: string, after: string) => {
    if (!(name in values)) return whole
    const value = String(values[name])
    return (isChinese(before + value.charAt(0)) ? '' : blank) + value + (isChinese(value.slice(-1) + after) ? '' : blankAfter)
  })
}

function isChinese(signs: string): boolean {
  return /^\p{Script=Han}+$/u.test(signs)
}
