// A page with all tokens and components, in both themes side by side: `npm run gallery`. The server does not serve
// it. Add each new part of ui/ here.
import { type ReactElement, type ReactNode, StrictMode, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { Calendar } from './Calendar.js'
import { Dialog } from './Dialog.js'
import { Avatar, Badge, Button, Choices, Field, Icon, IconButton, iconNames, Logo, Menu, MenuItem, type MenuPlace, RowButton, SearchField, Spinner, Switch, toast, Toasts } from './index.js'
import { readable } from './readable.js'
import tokens from './tokens.css?raw'
import './gallery.css'

const root = /:root \{([^}]*)\}/.exec(tokens)?.[1] ?? ''
const names = [...root.matchAll(/(--[\w-]+):\s*([^;]+);/g)].map(([, name = '', value = '']) => ({ name, value }))
const colours = names.filter(({ value }) => /#|light-dark/.test(value) && !value.includes('px')).map(({ name }) => name)
const others = names.filter(({ name }) => !colours.includes(name))

function Part({ title, children }: { readonly title: string; readonly children: ReactNode }): ReactElement {
  return <section><h2>{title}</h2>{children}</section>
}

function Components(): ReactElement {
  const [text, setText] = useState('')
  const [on, setOn] = useState(true)
  const [choice, setChoice] = useState<'day' | 'week' | 'month'>('day')
  const [dialog, setDialog] = useState(false)
  const [menu, setMenu] = useState<MenuPlace | undefined>(undefined)
  return (
    <>
      <Part title="Colours"><div className="gallery-colours">{colours.map((name) => <figure key={name}><span style={{ background: `var(${name})` }} /><figcaption>{name.slice(2)}</figcaption></figure>)}</div></Part>
      <Part title="Text on them"><div className="gallery-colours">{readable.map(([ink, paper]) => <p className="gallery-text" key={ink + paper} style={{ color: `var(--${ink})`, background: `var(--${paper})` }}>{ink} on {paper} 海燕</p>)}</div></Part>
      <Part title="Sizes and others"><dl className="gallery-tokens">{others.map(({ name, value }) => <div key={name}><dt>{name.slice(2)}</dt><dd>{value}</dd></div>)}</dl></Part>
      <Part title="Buttons">
        <div><Button look="primary">Primary</Button><Button>Plain</Button><Button look="danger">Danger</Button><Button look="danger-primary">Delete</Button></div>
        <div><Button look="primary" disabled>Disabled</Button><Button disabled>Disabled</Button><Button small>Small</Button><Button small look="primary">Small</Button></div>
        <Button look="primary" wide>Wide</Button>
        <div><IconButton icon="menu" label="Open a menu" onClick={(e) => setMenu({ x: e.clientX, y: e.clientY })} /><IconButton icon="more" label="More" small /><IconButton icon="bell" label="Pressed" aria-pressed /><IconButton icon="close" label="Disabled" disabled /></div>
      </Part>
      <Part title="Fields">
        <Field label="Name" hint="What others see" placeholder="Nobody yet" />
        <Field label="Password" type="password" defaultValue="short" error="It is too short" />
        <Field label="Disabled" defaultValue="Cannot be changed" disabled />
        <div><SearchField label="Search" clearLabel="Clear" value={text} onValue={setText} /></div>
        <Choices label="Range" value={choice} onChange={setChoice} of={[['day', 'Day'], ['week', 'Week'], ['month', 'Month']]} />
      </Part>
      <Part title="Rows">
        <div className="gallery-rows">
          <Switch icon="bell" on={on} onChange={setOn}>Notifications</Switch>
          <RowButton icon="person" note="a note below it">Row</RowButton>
          <RowButton icon="trash" danger>Row that destroys</RowButton>
        </div>
      </Part>
      <Part title="Pictures of users, badges, waiting">
        <div>{['alice', 'bob', 'carol', 'dave', '海燕', 'فريد', '🦊'].map((id) => <Avatar key={id} id={id} name={id} online={id === 'bob'} />)}</div>
        <div>{['Weekend boat trip', '周四晚饭', 'Ольга Петрова', 'अनिता शर्मा'].map((name) => <Avatar key={name} id={name} name={name} group />)}</div>
        <div>{[112, 54, 42, 34, 24].map((size) => <Avatar key={size} id="alice" name="Alice" size={size} />)}</div>
        <div><Badge count={3} label="3 unread" /><Badge count={42} label="42 unread" /><Badge count={1234} muted label="1234 unread" /><Spinner label="Loading" /><Logo size={40} /></div>
      </Part>
      <Part title="Calendar"><Calendar value={new Date()} last={new Date()} tag="en" previousLabel="The month before" nextLabel="The month after" onChoose={(day) => toast(day.toDateString())} /></Part>
      <Part title="Over the page"><div><Button onClick={() => setDialog(true)}>Dialog</Button><Button onClick={() => toast('Something happened')}>Toast</Button><Button onClick={(e) => setMenu({ x: e.clientX, y: e.clientY })}>Menu</Button></div></Part>
      <Part title="Icons"><div>{iconNames.map((name) => <span className="gallery-icon" key={name}><Icon name={name} /><small>{name}</small></span>)}</div></Part>
      {dialog && <Dialog title="Dialog" closeLabel="Close" onClose={() => setDialog(false)} foot={<><Button onClick={() => setDialog(false)}>Cancel</Button><Button look="primary" onClick={() => setDialog(false)}>Done</Button></>}><div className="dialog-body"><p>The focus stays here until it is closed.</p></div></Dialog>}
      {menu && <Menu at={menu} label="Menu" onClose={() => setMenu(undefined)}><MenuItem icon="reply" onSelect={() => toast('Reply')}>Reply</MenuItem><MenuItem icon="copy" onSelect={() => toast('Copy')}>Copy</MenuItem><MenuItem icon="trash" danger onSelect={() => toast('Delete')}>Delete</MenuItem></Menu>}
    </>
  )
}

function Gallery(): ReactElement {
  return (
    <>
      <h1 className="gallery-title"><Logo size={32} /> Tokens and components</h1>
      <main className="gallery">{['light', 'dark'].map((theme) => <div className={`gallery-theme gallery-${theme}`} key={theme}><Components /></div>)}</main>
      <Toasts />
    </>
  )
}

const at = document.getElementById('root')
if (at) createRoot(at).render(<StrictMode><Gallery /></StrictMode>)
