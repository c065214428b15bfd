declare module 'virtual:emoji/en' {
  const packed: readonly (readonly [string, string, string, string, number])[]
  export default packed
}
declare module 'virtual:emoji/zh' {
  const packed: readonly (readonly [string, string, string, string, number])[]
  export default packed
}
