// The plugin for OpenCode as a package: the same hooks as `milepost agents install opencode`, and also the MCP server and
// the command /checkpoint. Does nothing where the file of that installation is already active.

import { readFileSync } from "node:fs"
import { spawnSync } from "node:child_process"
import { Milepost as createHooks } from "./milepost.js"

function isInstalled() {
  return spawnSync("milepost", ["--version"], { stdio: "ignore", timeout: 5_000 }).status === 0
}

/** Adds what the user's settings do not have under the same name. */
function addSettings(settings) {
  // An MCP server that cannot be started would be reported as an error.
  if (!isInstalled()) return
  settings.mcp ??= {}
  settings.mcp.milepost ??= { type: "local", command: ["milepost", "mcp"], enabled: true }
  settings.command ??= {}
  if (settings.command.checkpoint) return
  const text = readFileSync(new URL("./checkpoint.md", import.meta.url), "utf8")
  const [, header, template] = text.match(/^---\n([\s\S]*?)\n---\n([\s\S]*)$/) ?? []
  if (!template) return
  settings.command.checkpoint = { template, description: header.match(/^description: (.*)$/m)?.[1] }
}

export const Milepost = async (input) => {
  const hooks = await createHooks(input)
  return {
    ...hooks,
    config: async (settings) => {
      try {
        addSettings(settings)
      } catch {
        // Errors here must not affect OpenCode.
      }
    },
  }
}
