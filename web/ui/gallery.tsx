// A page with all components, in both themes: `npm run gallery`. It is no part of what is served.
import { type ReactElement, StrictMode, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { Avatar, Badge, Button, Calendar, Choices, Dialog, Field, Icon, IconButton, iconNames, Logo, Menu, MenuItem, type MenuPlace, RowButton, SearchField, Spinner, Switch, toast, Toasts } from './index.js'
import './gallery.css'

function Gallery(): ReactElement {
  const [theme, setTheme] = useState<'auto' | 'light' | 'dark'>('auto')
  const [text, setText] = useState('')
  const [on, setOn] = useState(true)
  const [dialog, setDialog] = useState(false)
  const [menu, setMenu] = useState<MenuPlace | undefined>(undefined)
  if (theme === 'auto') delete document.documentElement.dataset['theme']
  else document.documentElement.dataset['theme'] = theme
  return (
    <main className="gallery">
      <h1><Logo size={40} /> Components</h1>
      <Choices label="Theme" value={theme} onChange={setTheme} of={[['auto', 'System'], ['light', 'Light'], ['dark', 'Dark']]} />
      <section><h2>Buttons</h2><div><Button look="primary">Primary</Button><Button>Plain</Button><Button look="danger">Danger</Button><Button look="danger-primary">Delete</Button><Button look="primary" disabled>Disabled</Button><Button small>Small</Button></div></section>
      <section><h2>Icons</h2><div>{iconNames.map((name) => <span className="gallery-icon" key={name}><Icon name={name} /><small>{name}</small></span>)}</div></section>
      <section><h2>Buttons with icons</h2><div><IconButton icon="menu" label="Menu" onClick={(e) => setMenu({ x: e.clientX, y: e.clientY })} /><IconButton icon="more" label="More" small /><IconButton icon="close" label="Close" disabled /></div></section>
      <section><h2>Fields</h2><Field label="Name" hint="What others see" /><Field label="Password" type="password" error="It is too short" /><SearchField label="Search" value={text} onValue={setText} /></section>
      <section><h2>Rows</h2><Switch icon="bell" on={on} onChange={setOn}>Notifications</Switch><RowButton icon="person" note="a note">Row</RowButton><RowButton icon="trash" danger>Dangerous row</RowButton></section>
      <section><h2>Avatars and badges</h2><div>{['alice', 'bob', 'carol', 'dave', '海燕'].map((id) => <Avatar key={id} id={id} name={id} online={id === 'bob'} />)}<Badge count={3} label="3 unread" /><Badge count={1234} muted label="1234 unread" /><Spinner label="Loading" /></div></section>
      <section><h2>Calendar</h2><Calendar value={new Date()} last={new Date()} tag="en" previousLabel="The month before" nextLabel="The month after" onChoose={(day) => toast(day.toDateString())} /></section>
      <section><h2>Over the page</h2><div><Button onClick={() => setDialog(true)}>Dialog</Button><Button onClick={() => toast('Something happened')}>Toast</Button></div></section>
      {dialog && <Dialog title="Dialog" closeLabel="Close" onClose={() => setDialog(false)} foot={<Button look="primary" onClick={() => setDialog(false)}>Done</Button>}><div className="dialog-body"><p>The focus stays here until it is closed.</p></div></Dialog>}
      {menu && <Menu at={menu} label="Menu" onClose={() => setMenu(undefined)}><MenuItem icon="reply" onSelect={() => toast('Reply')}>Reply</MenuItem><MenuItem icon="trash" danger onSelect={() => toast('Delete')}>Delete</MenuItem></Menu>}
      <Toasts />
    </main>
  )
}

const root = document.getElementById('root')
if (root) createRoot(root).render(<StrictMode><Gallery /></StrictMode>)
