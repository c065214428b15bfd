import { type ButtonHTMLAttributes, type InputHTMLAttributes, type ReactElement, type ReactNode, type Ref, useId, useState } from 'react'
import { Icon, type IconName } from './Icon.js'

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { readonly look?: 'primary' | 'plain' | 'danger' | 'danger-primary'; readonly wide?: boolean; readonly small?: boolean }

export function Button({ look = 'plain', wide, small, ...more }: ButtonProps): ReactElement {
  const looks = { primary: ' button-primary', plain: '', danger: ' button-danger', 'danger-primary': ' button-danger button-primary' }
  return <button type="button" {...more} className={`button${looks[look]}${wide ? ' button-wide' : ''}${small ? ' button-small' : ''}`} />
}

type IconButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { readonly icon: IconName; readonly label: string; readonly small?: boolean; readonly ref?: Ref<HTMLButtonElement> }

/** A button with an icon. The label is read by screen readers, and shown as a tooltip. */
export function IconButton({ icon, label, small, className = '', ...more }: IconButtonProps): ReactElement {
  return <button type="button" aria-label={label} title={label} {...more} className={`icon-button${small ? ' icon-button-small' : ''} ${className}`}><Icon name={icon} small={small ?? false} /></button>
}

type FieldProps = InputHTMLAttributes<HTMLInputElement> & { readonly label: string; readonly hint?: string | undefined; readonly error?: string | undefined; readonly reveal?: string; readonly ref?: Ref<HTMLInputElement> }

/** A field with its label. `reveal` is the label of the button that shows a typed password. */
export function Field({ label, hint, error, reveal, ...input }: FieldProps): ReactElement {
  const id = useId()
  const [shown, setShown] = useState(false)
  const note = error ?? hint
  return (
    <div className="field">
      <label className="field-label" htmlFor={id}>{label}</label>
      <span className="field-line">
        <input className="field-input" id={id} aria-invalid={error !== undefined} aria-describedby={note === undefined ? undefined : `${id}-note`} {...input} type={shown ? 'text' : input.type} {...(reveal === undefined ? {} : { spellCheck: false, autoCapitalize: 'none' })} />
        {reveal !== undefined && <button type="button" className="icon-button field-reveal" title={reveal} aria-pressed={shown} aria-controls={id} onClick={() => setShown(!shown)}><Icon name={shown ? 'eyeOff' : 'eye'} small /><span className="unseen">{reveal}</span></button>}
      </span>
      {note !== undefined && <span className={`field-hint${error === undefined ? '' : ' field-error'}`} id={`${id}-note`} role={error === undefined ? undefined : 'alert'}>{note}</span>}
    </div>
  )
}

type SearchProps = Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange'> & { readonly label: string; readonly clearLabel: string; readonly value: string; readonly onValue: (text: string) => void; readonly ref?: Ref<HTMLInputElement> }

/** A search field, with a button that empties it. */
export function SearchField({ label, clearLabel, value, onValue, ...input }: SearchProps): ReactElement {
  return (
    <label className="search">
      <Icon name="search" small />
      <input type="search" aria-label={label} placeholder={label} autoComplete="off" spellCheck={false} enterKeyHint="search" {...input} value={value} onChange={(e) => onValue(e.target.value)} />
      {value !== '' && <IconButton small icon="close" label={clearLabel} onClick={(e) => { onValue(''); e.currentTarget.parentElement?.querySelector('input')?.focus() }} />}
    </label>
  )
}

/** A setting that is on or off. */
export function Switch({ on, onChange, children, icon }: { readonly on: boolean; readonly onChange: (on: boolean) => void; readonly children: ReactNode; readonly icon?: IconName }): ReactElement {
  return (
    <button type="button" className="row" role="switch" aria-checked={on} onClick={() => onChange(!on)}>
      {icon && <Icon name={icon} />}
      <span className="row-text">{children}</span>
      <span className="switch" />
    </button>
  )
}

interface ChoicesProps<T extends string> {
  readonly label: string
  readonly titled?: boolean // the label is visible, above the choices
  readonly value: T
  readonly of: readonly (readonly [T, string])[]
  readonly onChange: (value: T) => void
}

/** A choice of one of a few values. */
export function Choices<T extends string>({ label, titled, value, of, onChange }: ChoicesProps<T>): ReactElement {
  const name = useId()
  const choices = (
    <div role="radiogroup" aria-label={label} className="choices">
      {of.map(([key, text]) => (
        <label key={key}>
          <input type="radio" name={name} checked={key === value} onChange={() => onChange(key)} />
          <span>{text}</span>
        </label>
      ))}
    </div>
  )
  return titled ? <><span className="choices-label" aria-hidden="true">{label}</span>{choices}</> : choices
}

/** A row of a list that acts as a button. */
export function RowButton({ icon, danger, note, children, ...more }: ButtonHTMLAttributes<HTMLButtonElement> & { readonly icon?: IconName; readonly danger?: boolean; readonly note?: string }): ReactElement {
  return (
    <button type="button" {...more} className={`row${danger ? ' row-danger' : ''}`}>
      {icon && <Icon name={icon} />}
      <span className="row-text"><span>{children}</span>{note !== undefined && <span className="row-note"><br />{note}</span>}</span>
    </button>
  )
}

export function Badge({ count, muted, label }: { readonly count: number; readonly muted?: boolean; readonly label: string }): ReactElement {
  return <span className={`badge${muted ? ' badge-muted' : ''}`}><span aria-hidden="true">{count > 999 ? `${Math.floor(count / 1000)}k` : count}</span><span className="unseen">{label}</span></span>
}

export function Spinner({ label }: { readonly label: string }): ReactElement {
  return <div className="spinner" role="status" aria-label={label} />
}
