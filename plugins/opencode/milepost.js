// Reports OpenCode's events to Milepost, with one short-lived process per event, and adds the brief of interrupted work
// to a new session. Never throws into OpenCode, and does nothing if milepost is not installed.

import { spawn, spawnSync } from "node:child_process"

const PROGRAM = "milepost"
const ARGUMENTS = ["hook", "opencode"]
/** Timeout of a hook, and how long OpenCode waits for its answer, in milliseconds. */
const TIMEOUT = 10_000
const PATIENCE = 5_000
/** Maximum number of queued events. Further events are dropped. */
const WAITING = 200
/** Maximum length of a string. Longer ones are sent without their middle. */
const LONGEST = 16_384

/** Events to report, in addition to failed tool calls. */
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

/** Extracts the text from an answer: plain text, our own JSON, or the JSON that other agents' hooks use. */
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

/** Runs hooks one at a time, so that Milepost receives events in order. */
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

  /** Resolves to the hook's output, or to an empty string if the hook could not run. */
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

  // Send the events that are still queued when OpenCode exits, within two seconds in total.
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
  /** Start time of each tool call. */
  const began = new Map()
  /** Sessions created since the plugin was loaded. Any other session was resumed. */
  const created = new Set()
  /** The parent session of each sub-agent's session. */
  const parents = new Map()
  /** A promise of the brief, for each session. */
  const briefs = new Map()
  const compacted = new Set()
  /** Failed tool calls that were already reported. */
  const failed = new Set()
  /** The last text of the assistant, for each session. */
  const lastTexts = new Map()

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
      // Errors here must not affect OpenCode.
    }
  }

  function onSession(type, data) {
    const session = data.sessionID ?? data.info?.id
    if (type === "session.created") {
      // The session is reported when it requests the brief, at its first prompt.
      created.add(session)
      if (data.info?.parentID) parents.set(session, data.info.parentID)
      return
    }
    if (isChild(session)) return
    if (type === "session.compacted") {
      compacted.add(session)
      briefs.delete(session)
    }
    const last_text = type === "session.idle" ? lastTexts.get(session) : undefined
    lastTexts.delete(session)
    send(`event:${type}`, shorter(last_text === undefined ? data : { ...data, last_text }))
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

  /** Requests the brief, once per session and after each compaction. */
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
      // Request the brief before the first prompt is recorded, while the session is still new to Milepost.
      if (input?.sessionID) brief(input.sessionID)
      // Milepost does not record images and files.
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

    // Only reads the text: the conversation must not change.
    "experimental.text.complete": safely(async (input, output) => {
      if (isChild(input?.sessionID) || typeof output?.text !== "string") return
      if (lastTexts.size > 1_000) lastTexts.clear()
      lastTexts.set(input.sessionID, output.text)
    }),

    // Runs for every request, including the one that generates a title. The brief is added to every request, as if it were
    // part of the conversation.
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
    // The user's and the project's plugin may both be installed. Only one is active, even after OpenCode reloads them.
    const here = (globalThis[Symbol.for("milepost.opencode")] ??= new Map())
    const place = directory ?? process.cwd()
    if ((here.get(place) ?? import.meta.url) !== import.meta.url) return {}
    here.set(place, import.meta.url)
    return hooksFor(place, worktree ?? place)
  } catch {
    return {}
  }
}
