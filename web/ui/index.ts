// Tokens and components that the pages of Petrel share. Calendar.tsx and Dialog.tsx are imported directly, because
// the chat loads them later.
import './tokens.css'
import './controls.css'
import './overlays.css'

export { Avatar, hueOf } from './Avatar.js'
export { enterSends, isComposing } from './composing.js'
export { Badge, Button, Choices, Field, IconButton, RowButton, SearchField, Spinner, Switch } from './controls.js'
export { Icon, type IconName, iconNames, Logo } from './Icon.js'
export { randomId } from './ids.js'
export { Menu, MenuItem, type MenuPlace } from './Menu.js'
export { activeIn, selectedText } from './roots.js'
export { toast, ToastContext, ToastList, Toasts, useToast } from './Toasts.js'
