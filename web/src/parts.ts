// What a page does not need to show a chat: one file, which is loaded when the first of it is shown.
export { default as EmojiPicker } from './emoji/EmojiPicker.js'
export { default as SelectBar } from './chat/SelectBar.js'
export { default as ThreadPanel } from './chat/ThreadPanel.js'
