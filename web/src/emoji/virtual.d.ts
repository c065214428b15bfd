declare module 'virtual:emoji/en' {
  const packed: readonly (readonly [string, string, string, string, number, 1?])[]
  export default packed
}
declare module 'virtual:emoji/zh' {
  const packed: readonly (readonly [string, string, string, string, number, 1?])[]
  export default packed
}
