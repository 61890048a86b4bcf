// Written by `milepost agents install`; `milepost agents uninstall` removes it. Without this line the file is yours.
//
// Tells Milepost what happens in OpenCode, one short process an event, and brings the brief of interrupted work into a
// new session. Nothing here throws into OpenCode, and nothing happens where milepost is not installed.

import { spawn, spawnSync } from "node:child_process"

const PROGRAM = "milepost"
const ARGUMENTS = ["hook", "opencode"]
/** How long a hook may take, and how long OpenCode waits for an answer. Milliseconds. */
const TIMEOUT = 10_000
const PATIENCE = 5_000
/** How many events may wait; beyond that the newest are left out. */
const WAITING = 200
/** Longer strings are sent with their middle left out. */
const LONGEST = 16_384

/** Events that say something about a session as such. */
const RELEVANT = new Set([
  "session.created",
  "session.compacted",
  "session.error",
  "session.idle",
  "permission.asked",
  "permission.updated",
  "permission.replied",
])

function shorter(value, depth = 0) {
  if (typeof value === "string") {
    if (value.length <= LONGEST) return value
    return `${value.slice(0, LONGEST / 2)}\n…\n${value.slice(-LONGEST / 2)}`
  }
  if (value === null || typeof value !== "object") return value
  if (depth > 12) return null
  if (Array.isArray(value)) return value.slice(0, 500).map((item) => shorter(item, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, shorter(item, depth + 1)]))
}

/** The text that an answer holds: plain, or in the JSON that other agents' hooks use. */
function textOf(answer) {
  const text = answer.trim()
  if (!text.startsWith("{")) return text
  try {
    const said = JSON.parse(text)
    const found = said.hookSpecificOutput?.additionalContext ?? said.additionalContext ?? said.context ?? ""
    return typeof found === "string" ? found.trim() : ""
  } catch {
    return ""
  }
}

/** Starts hooks one after the other, so that they arrive in the order in which things happened. */
function messenger(directory, worktree) {
  const queue = []
  let running = false
  let missing = false

  function start({ input, done }) {
    running = true
    let said = ""
    let timer
    const finish = () => {
      if (!running) return
      running = false
      clearTimeout(timer)
      done(said)
      next()
    }
    try {
      const child = spawn(PROGRAM, ARGUMENTS, { cwd: directory, stdio: ["pipe", "pipe", "ignore"] })
      timer = setTimeout(() => child.kill("SIGKILL"), TIMEOUT)
      timer.unref?.()
      let over = false
      const once = () => {
        if (over) return
        over = true
        finish()
      }
      child.on("error", (error) => {
        missing = missing || error?.code === "ENOENT"
        once()
      })
      child.on("close", once)
      child.stdout.setEncoding("utf8")
      child.stdout.on("data", (part) => (said += part))
      child.stdout.on("error", () => {})
      child.stdin.on("error", () => {})
      child.stdin.end(input)
    } catch {
      finish()
    }
  }

  function next() {
    if (missing) {
      for (const waiting of queue.splice(0)) waiting.done("")
      return
    }
    if (!running && queue.length > 0) start(queue.shift())
  }

  /** Gives what the hook printed; the empty text if it was late, failed or is not there. */
  function send(event, data) {
    if (missing || queue.length >= WAITING) return Promise.resolve("")
    return new Promise((resolve) => {
      queue.push({ input: JSON.stringify({ event, data, directory, worktree }), done: resolve })
      next()
    })
  }

  function ask(event, data) {
    let timer
    const late = new Promise((resolve) => {
      timer = setTimeout(() => resolve(""), PATIENCE)
    })
    return Promise.race([send(event, data), late]).finally(() => clearTimeout(timer))
  }

  // What still waits when OpenCode ends would be lost: it is sent now, within two seconds in all.
  process.on("exit", () => {
    const until = Date.now() + 2_000
    while (!missing && queue.length > 0 && Date.now() < until) {
      const { input } = queue.shift()
      try {
        const options = { cwd: directory, input, stdio: ["pipe", "ignore", "ignore"], timeout: until - Date.now() }
        missing = spawnSync(PROGRAM, ARGUMENTS, options).error?.code === "ENOENT"
      } catch {
        return
      }
    }
  })

  return { send, ask }
}

function hooksFor(directory, worktree) {
  const { send, ask } = messenger(directory, worktree)
  /** When a tool call began. */
  const began = new Map()
  /** Sessions that were made while we looked; another one that appears was resumed. */
  const created = new Set()
  /** The session that a sub-agent's session works for. */
  const parents = new Map()
  /** The brief of each session, or the promise of it. */
  const briefs = new Map()
  const compacted = new Set()
  /** Failed tool calls that were told of. */
  const failed = new Set()

  const root = (session) => {
    let at = session
    for (let depth = 0; depth < 20 && parents.has(at); depth++) at = parents.get(at)
    return at
  }
  const isChild = (session) => parents.has(session)
  const safely = (hook) => async (...given) => {
    try {
      await hook(...given)
    } catch {
      // OpenCode goes on whatever happens here.
    }
  }

  function onSession(type, data) {
    const session = data.sessionID ?? data.info?.id
    if (type === "session.created") {
      // It is told of when it asks for the brief, at its first prompt.
      created.add(session)
      if (data.info?.parentID) parents.set(session, data.info.parentID)
      return
    }
    if (isChild(session)) return
    if (type === "session.compacted") {
      compacted.add(session)
      briefs.delete(session)
    }
    send(`event:${type}`, shorter(data))
  }

  function onFailedTool(data) {
    const part = data.part
    if (part?.type !== "tool" || part.state?.status !== "error") return
    const call = part.callID ?? part.id
    if (failed.has(call)) return
    failed.add(call)
    const { start, end } = part.state.time ?? {}
    const duration_ms = Math.max(0, Math.round((end ?? Date.now()) - (start ?? began.get(call) ?? end ?? Date.now())))
    began.delete(call)
    send("event:message.part.updated", shorter({ ...data, sessionID: root(data.sessionID ?? part.sessionID), duration_ms }))
  }

  /** Asks for the brief, once a session and after each compaction. */
  function brief(session) {
    if (!briefs.has(session)) {
      const source = compacted.delete(session) ? "compact" : created.has(session) ? "startup" : "resume"
      const data = { i: { sessionID: session }, source }
      briefs.set(session, ask("experimental.chat.system.transform", data).then(textOf))
    }
    return briefs.get(session)
  }

  return {
    event: safely(async ({ event }) => {
      const data = event?.properties ?? {}
      if (event?.type === "message.part.updated") onFailedTool(data)
      else if (RELEVANT.has(event?.type)) onSession(event.type, data)
    }),

    "chat.message": safely(async (input, output) => {
      if (isChild(input?.sessionID)) return
      // Before the first word is kept, so that the session is still a new one when it asks.
      if (input?.sessionID) brief(input.sessionID)
      // Pictures and files are not Milepost's matter.
      const parts = (output?.parts ?? []).filter((part) => part?.type === "text")
      send("chat.message", shorter({ i: input, o: { message: output?.message, parts } }))
    }),

    "tool.execute.before": safely(async (input) => {
      if (began.size > 1_000) began.clear()
      began.set(input?.callID, Date.now())
    }),

    "tool.execute.after": safely(async (input, output) => {
      const start = began.get(input?.callID)
      began.delete(input?.callID)
      const data = { i: { ...input, sessionID: root(input?.sessionID) }, o: output }
      if (start !== undefined) data.duration_ms = Math.max(0, Date.now() - start)
      send("tool.execute.after", shorter(data))
    }),

    // Fires for every request, also for the one that makes up a title: the answer stands in every request from then on, as
    // it would in a conversation.
    "experimental.chat.system.transform": safely(async (input, output) => {
      const session = input?.sessionID
      if (!session || isChild(session) || !Array.isArray(output?.system)) return
      const text = await brief(session)
      if (text) output.system.push(text)
    }),

    "experimental.session.compacting": safely(async (input, output) => {
      if (isChild(input?.sessionID)) return
      const text = textOf(await ask("experimental.session.compacting", { i: shorter(input) }))
      if (text && Array.isArray(output?.context)) output.context.push(text)
    }),
  }
}

export const Milepost = async ({ directory, worktree } = {}) => {
  try {
    // The user's plugin and the project's may both be there: one of them speaks, also after OpenCode loads them again.
    const here = (globalThis[Symbol.for("milepost.opencode")] ??= new Map())
    const place = directory ?? process.cwd()
    if ((here.get(place) ?? import.meta.url) !== import.meta.url) return {}
    here.set(place, import.meta.url)
    return hooksFor(place, worktree ?? place)
  } catch {
    return {}
  }
}
