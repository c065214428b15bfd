/**
 * Fills the values into a text. Between two Chinese characters it leaves out the blank that stands between a
 * Chinese and a Latin one.
 */
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
