// The process of OpenCode: loads Milepost's plugin and calls one of its hooks for every line on its standard
// input. Prints the hook's output when all processes that the plugin started have ended.
import child_process from "node:child_process"
import { syncBuiltinESMExports } from "node:module"
import { createInterface } from "node:readline"

let running = 0
const start = child_process.spawn
child_process.spawn = (...given) => {
  const child = start(...given)
  running++
  let counted = true
  const ended = () => {
    if (counted) running--
    counted = false
  }
  child.once("close", ended)
  child.once("error", ended)
  return child
}
syncBuiltinESMExports()

const pause = () => new Promise((resolve) => setTimeout(resolve, 1))
const { Milepost } = await import(process.argv[2])
const directory = process.cwd()
const hooks = await Milepost({ directory, worktree: directory })
for await (const line of createInterface({ input: process.stdin })) {
  const { hook, input, output } = JSON.parse(line)
  await hooks[hook]?.(input, output)
  do await pause()
  while (running > 0)
  console.log(JSON.stringify(output))
}
