// Runs after the installation. Replaces the launcher bin/milepost with the program itself, so that the command starts
// without Node. If that is not possible, the launcher remains and works.
"use strict"

const fs = require("node:fs")
const path = require("node:path")
const { findProgram } = require("./platform.js")

function replaceLauncher() {
  // On Windows, npm starts bin/milepost with Node. Yarn's Plug'n'Play cannot start programs in packages.
  if (process.platform === "win32" || /\byarn\//.test(process.env.npm_config_user_agent ?? "")) return
  const program = findProgram()
  const launcher = path.join(__dirname, "bin", "milepost")
  const next = `${launcher}.new`
  fs.rmSync(next, { force: true })
  try {
    fs.linkSync(program, next)
  } catch {
    // Another file system.
    fs.copyFileSync(program, next)
  }
  fs.chmodSync(next, 0o755)
  fs.renameSync(next, launcher)
}

try {
  replaceLauncher()
} catch (error) {
  console.error(`milepost: ${error.message}`)
}
