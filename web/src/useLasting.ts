import { useEffect, useState } from 'react'

/** Whether a condition has been true for ms without a break. */
export function useLasting(is: boolean, ms: number): boolean {
  const [long, setLong] = useState(false)
  useEffect(() => {
    if (!is) return undefined
    const timer = setTimeout(() => setLong(true), ms)
    return () => {
      clearTimeout(timer)
      setLong(false)
    }
  }, [is, ms])
  return is && long
}

/** Returns a text. When the text becomes '', it returns the former one for ms more. */
export function useHeld(text: string, ms: number): string {
  const [held, setHeld] = useState('')
  useEffect(() => {
    if (text !== '') setHeld(text)
    else {
      const timer = setTimeout(() => setHeld(''), ms)
      return () => clearTimeout(timer)
    }
    return undefined
  }, [text, ms])
  return text || held
}
