import type { ReactElement } from 'react'

// Drawn for Petrel on a grid of 24 units, with strokes of 1.8.
const paths = {
  back: 'M15 5l-7 7 7 7',
  close: 'M6 6l12 12M18 6L6 18',
  menu: 'M4 7h16M4 12h16M4 17h16',
  more: 'M12 5.5v.01M12 12v.01M12 18.5v.01',
  search: 'M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5L20 20',
  write: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
  send: 'M4 5l17 7-17 7 3-7zM7 12h6',
  smile: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM8.5 14.5c2 2.3 5 2.3 7 0M9 9.5v.01M15 9.5v.01',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  reply: 'M9 6l-5 5 5 5M4 11h9c4 0 7 2.5 7 7',
  forward: 'M15 6l5 5-5 5M20 11h-9c-4 0-7 2.5-7 7',
  trash: 'M5 7h14M10 7V4.5h4V7M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5',
  pin: 'M9 4h6l-1 6 3 3v2H7v-2l3-3zM12 15v6',
  thread: 'M4 5h16v11h-9l-4 4v-4H4zM8 9h8M8 12.500h5',
  select: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM8 12.500l3 3 5.500-6',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  down: 'M5 9l7 7 7-7',
  person: 'M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.5 20c1-4 4-5.500 7.500-5.500s6.500 1.500 7.500 5.500',
  people: 'M9 11.500a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM2.500 19.500c.8-3.600 3.300-5 6.500-5s5.700 1.400 6.500 5M16 11.500a3 3 0 1 0-1-5.800M17.500 14.500c2.300.4 3.700 1.900 4.200 4.500',
  gear: 'M12 15.500a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM12 2.800v2.700M12 18.500v2.700M2.800 12h2.700M18.500 12h2.700M5.500 5.500l1.900 1.900M16.600 16.600l1.900 1.900M18.500 5.500l-1.900 1.900M7.400 16.600l-1.900 1.900',
  bell: 'M6 17V11a6 6 0 0 1 12 0v6l1.500 1.500h-15zM10 21h4',
  calendar: 'M4 6h16v14H4zM4 10h16M8 3.500V7M16 3.500V7',
  mute: 'M6 17v-6a6 6 0 0 1 9-5.200M18 10.500V17l1.500 1.500H8M10 21h4M4 4l16 16',
  sound: 'M4 9.500v5h4l5 4v-13l-5 4zM16.500 9a4 4 0 0 1 0 6M19 6.500a8 8 0 0 1 0 11',
  archive: 'M4 5h16v4H4zM5.500 9v11h13V9M10 13h4',
  exit: 'M13 4H5v16h8M10 12h11M17 8l4 4-4 4',
  add: 'M12 5v14M5 12h14',
  ban: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM5.700 5.700l12.600 12.600',
  device: 'M4 5h16v11H4zM9 20h6M12 16v4',
  bookmark: 'M7 4h10v16l-5-4-5 4z',
  phone: 'M8 3h8v18H8zM11 18h2',
  key: 'M8 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 12h9M18 12v4',
  clock: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7.500V12l3 2',
  alert: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7.500v6M12 16.500v.01',
  info: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5.500M12 7.500v.01',
  keyboard: 'M3 7h18v11H3zM7 11h.01M11 11h.01M15 11h.01M7.500 14.500h9',
  crown: 'M4 18h16M4.500 15l-1-8 5 4 3.500-6 3.500 6 5-4-1 8z',
  unread: 'M20 12a8 8 0 1 1-4-6.900M19 6.500v.01',
  eye: 'M2.500 12S6 5.500 12 5.500 21.500 12 21.500 12 18 18.500 12 18.500 2.500 12 2.500 12zM12 14.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5z',
  eyeOff: 'M4 4l16 16M9.500 6.100A8 8 0 0 1 12 5.500C18 5.500 21.500 12 21.500 12a16 16 0 0 1-2.800 3.500M6.500 7.700A15 15 0 0 0 2.500 12S6 18.500 12 18.500a9 9 0 0 0 4-1M10 10.500a2.500 2.500 0 0 0 3.500 3.500',
  globe: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM3 12h18M12 3c3 3 3.500 6 3.500 9s-.5 6-3.500 9c-3-3-3.500-6-3.500-9s.5-6 3.500-9z',
  tablet: 'M5 3h14v18H5zM11 18h2',
  terminal: 'M3 5h18v14H3zM7 9.500l3 2.500-3 2.500M12 15h4',
  chats: 'M4 4h11v8H9l-3 3v-3H4zM18 9h2.500v8H18.500v3l-3-3H10v-2',
  leaf: 'M5 19C4 10 9 4.500 20 4c.5 11-5 16-12 14M5 20c2-5 5-8 9-10',
  cup: 'M5 8h12v6a5 5 0 0 1-5 5h-2a5 5 0 0 1-5-5zM17 9.500h2a2 2 0 0 1 0 5h-2M9 3v2M13 3v2',
  car: 'M5.500 15.500H3V12l3-1.500L8 6h8l2 4.500 3 1.500v3.500h-2.500M9.500 15.500h5M6 10.500h12M7.500 17.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM16.500 17.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4z',
  ball: 'M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM5.600 5.600c3.500 3.500 3.500 9.300 0 12.800M18.400 5.600c-3.500 3.500-3.500 9.300 0 12.800',
  bulb: 'M9.500 17.500h5M10 20.500h4M9.500 17.500c0-2-3-3.500-3-7.500a5.500 5.500 0 0 1 11 0c0 4-3 5.500-3 7.500z',
  heart: 'M12 20C6 15.500 3.500 12.500 3.500 9a4.500 4.500 0 0 1 8.500-2 4.500 4.500 0 0 1 8.500 2c0 3.500-2.500 6.500-8.500 11z',
  flag: 'M6 21V4c4-2 7 2 12 0v9c-5 2-8-2-12 0',
  pulse: 'M3 12h4l3-7 4 14 3-7h4',
  server: 'M4 5h16v6H4zM4 13h16v6H4zM7.500 8v.01M7.500 16v.01',
  list: 'M8.500 6H20M8.500 12H20M8.500 18H20M4.500 6v.01M4.500 12v.01M4.500 18v.01',
  path: 'M6 8a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM18 20a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM8 6h7a3 3 0 0 1 0 6H9a3 3 0 0 0 0 6h7',
} as const

export type IconName = keyof typeof paths

/** An icon. The control around it has the label. */
export function Icon({ name, small }: { readonly name: IconName; readonly small?: boolean }): ReactElement {
  return <svg className={`icon${small ? ' icon-small' : ''}${name === 'more' ? ' icon-dots' : ''}`} viewBox="0 0 24 24" aria-hidden="true"><path d={paths[name]} /></svg>
}

/** The bird of Petrel. */
export function Logo({ size }: { readonly size: number }): ReactElement {
  return (
    <svg width={size} height={size} viewBox="0 0 64 64" aria-hidden="true">
      <rect width="64" height="64" rx="15" fill="#1476c6" />
      <path fill="#fff" d="M5 36c9-1 15-6 20-15 2 6 6 9 11 10 6-7 14-11 23-12-6 4-10 9-13 16-4 9-11 14-20 14-5 0-9-2-12-5 4 0 7-1 9-3-6 0-12-2-18-5z" />
    </svg>
  )
}

export const iconNames = Object.keys(paths) as readonly IconName[]
