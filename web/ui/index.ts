// Tokens and components that the pages of Petrel share.
import './tokens.css'
import './controls.css'
import './overlays.css'

export { Avatar, hueOf } from './Avatar.js'
export { Calendar } from './Calendar.js'
export { enterSends, isComposing } from './composing.js'
export { Badge, Button, Choices, Field, IconButton, RowButton, SearchField, Spinner, Switch } from './controls.js'
export { Dialog } from './Dialog.js'
export { Icon, type IconName, iconNames, Logo } from './Icon.js'
export { Menu, MenuItem, type MenuPlace } from './Menu.js'
export { activeIn, selectedText } from './roots.js'
export { toast, ToastContext, ToastList, Toasts, useToast } from './Toasts.js'
