// A scripted model for tests. Replies in the formats of four providers and logs every request.
//
//     node endpoint.mjs SCRIPT LOG PORT
//
// SCRIPT is a JSON file: `{ folder, file, content, command, todo: [[what, status], …], sentence, lastMessage,
// otherCommand }`. LOG gets one line of JSON per request. PORT is a file that gets the port number once the endpoint
// listens on 127.0.0.1.
//
// The first part of the request path selects the behaviour. The work is a to-do list, a file and a failing command.
//
// - `/script/…` does the work, then stops replying, so the agent can be killed in the middle of its work.
// - `/turn/…` does the work, then ends the turn with the last message.
// - `/next-turn/…` continues a conversation of `/turn/…`: runs the other command, then stops replying.
// - `/more/…` runs the other command in a new conversation, then stops replying.
// - `/talk/…` replies with one sentence.
//
// The endpoint keeps no state: the number of tool results in a conversation is the number of completed steps.

import { appendFileSync, readFileSync, renameSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"

const [scriptFile, log, portFile] = process.argv.slice(2)
const script = JSON.parse(readFileSync(scriptFile))
const path = `${script.folder}/${script.file}`
const patch = `*** Begin Patch\n*** Add File: ${script.file}\n+${script.content}\n*** End Patch\n`
const list = (name, more) => script.todo.map(([what, status]) => ({ [name]: what, status, ...more }))

/** Claude Code creates and updates its tasks one by one, numbered from 1. */
const tasks = [
  ...script.todo.map(([what]) => ["TaskCreate", { subject: what, description: what, activeForm: what }]),
  ...script.todo.map(([, status], n) => ["TaskUpdate", { taskId: `${n + 1}`, status }]),
]

/** The tool calls of each agent. The name of its first to-do tool identifies the agent. */
const AGENTS = [
  {
    todo: tasks,
    write: ["Write", { file_path: path, content: script.content }],
    run: (command) => ["Bash", { command }],
  },
  {
    todo: [["write_todos", { todos: list("description") }]],
    write: ["write_file", { file_path: path, content: script.content }],
    run: (command) => ["run_shell_command", { command }],
  },
  {
    todo: [["update_plan", { plan: list("step") }]],
    write: ["apply_patch", patch],
    run: (command) => ["exec_command", { cmd: command }],
  },
  {
    todo: [["todowrite", { todos: list("content", { priority: "high" }) }]],
    write: ["write", { filePath: path, content: script.content }],
    run: (command) => ["bash", { command, description: "Run a command" }],
  },
]

const work = ({ todo, write, run }) => [...todo, write, run(script.command)]
const more = ({ run }) => [run(script.otherCommand)]
const hang = { hang: true }

/** For each behaviour that calls tools: the calls, one per step, and what the model does after them. */
const BEHAVIOURS = {
  script: { steps: work, end: hang },
  turn: { steps: work, end: { say: script.lastMessage } },
  "next-turn": { steps: (agent) => [...work(agent), ...more(agent)], end: hang },
  more: { steps: more, end: hang },
}

/** The next action of the model: call a tool, reply with a sentence, or stop replying. */
function next(place, tools, results) {
  // Requests for titles and summaries have no tools.
  const behaviour = BEHAVIOURS[place.split("/")[1]]
  if (!behaviour || tools.length === 0) return { say: script.sentence }
  const id = `call_${results + 1}`
  // Some of Codex's models have a single tool, which runs JavaScript that calls the others.
  const nested = tools.includes("exec")
  const agent = AGENTS.find(({ todo: [[name]] }) => tools.includes(name) || (nested && name === "update_plan"))
  if (!agent) return { say: `no to-do list among ${tools.join(", ")}` }
  const steps = behaviour.steps(agent)
  if (results >= steps.length) return behaviour.end
  const [name, input] = steps[results]
  if (nested) return { call: { id, name: "exec", input: `text(await tools.${name}(${JSON.stringify(input)}))` } }
  if (!tools.includes(name)) return { say: `no ${name} among ${tools.join(", ")}` }
  return { call: { id, name, input } }
}

const sse = (events) =>
  events.map((event) => `${event.type ? `event: ${event.type}\n` : ""}data: ${JSON.stringify(event)}\n\n`).join("")

const anthropic = {
  path: /\/v1\/messages$/,
  tools: ({ tools = [] }) => tools.map((tool) => tool.name),
  results: ({ messages }) =>
    messages.flatMap(({ content }) => (Array.isArray(content) ? content : [])).filter((part) => part.type === "tool_result"),
  answer({ say, call }) {
    const usage = { input_tokens: 1, output_tokens: 1 }
    const message = { id: "msg_1", type: "message", role: "assistant", model: "model-1", content: [], stop_reason: null, usage }
    const content_block = call ? { type: "tool_use", id: call.id, name: call.name, input: {} } : { type: "text", text: "" }
    const delta = call
      ? { type: "input_json_delta", partial_json: JSON.stringify(call.input) }
      : { type: "text_delta", text: say }
    return sse([
      { type: "message_start", message },
      { type: "content_block_start", index: 0, content_block },
      { type: "content_block_delta", index: 0, delta },
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: call ? "tool_use" : "end_turn" }, usage },
      { type: "message_stop" },
    ])
  },
}

const gemini = {
  path: /:(streamGenerateContent|generateContent)$/,
  tools: ({ tools = [] }) => tools.flatMap((tool) => tool.functionDeclarations ?? []).map((tool) => tool.name),
  // Gemini repeats every result of a session that it continues.
  results: ({ contents }) => [
    ...new Set(contents.flatMap(({ parts = [] }) => parts.flatMap((part) => part.functionResponse?.id ?? []))),
  ],
  answer({ say, call }, streamed) {
    const part = call ? { functionCall: { id: call.id, name: call.name, args: call.input } } : { text: say }
    const usageMetadata = { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 }
    const candidates = [{ index: 0, content: { role: "model", parts: [part] }, finishReason: "STOP" }]
    return streamed ? sse([{ candidates, usageMetadata }]) : JSON.stringify({ candidates, usageMetadata })
  },
}

const responses = {
  path: /\/responses$/,
  tools: ({ tools = [], input }) => {
    const added = input.filter((item) => item.type === "additional_tools").flatMap((item) => item.tools)
    return [...tools, ...added.flatMap((tool) => tool.tools ?? [tool])].map((tool) => tool.name ?? tool.type)
  },
  results: ({ input }) => input.filter((item) => item.type?.endsWith("_call_output")),
  answer({ say, call }) {
    const asked = call && { id: `item_${call.id}`, call_id: call.id, name: call.name }
    const item = !call
      ? { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: say }] }
      : typeof call.input === "string"
        ? { type: "custom_tool_call", ...asked, input: call.input }
        : { type: "function_call", ...asked, arguments: JSON.stringify(call.input) }
    const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 }
    return sse([
      { type: "response.created", response: { id: "resp_1" } },
      { type: "response.output_item.done", output_index: 0, item },
      { type: "response.completed", response: { id: "resp_1", usage } },
    ])
  },
}

const completions = {
  path: /\/chat\/completions$/,
  tools: ({ tools = [] }) => tools.map((tool) => tool.function.name),
  results: ({ messages }) => messages.filter((message) => message.role === "tool"),
  answer({ say, call }) {
    const asked = call && { name: call.name, arguments: JSON.stringify(call.input) }
    const delta = call ? { tool_calls: [{ index: 0, id: call.id, type: "function", function: asked }] } : { content: say }
    const chunk = (delta, finish_reason) => ({
      id: "chat_1",
      object: "chat.completion.chunk",
      created: 1,
      model: "model-1",
      choices: [{ index: 0, delta, finish_reason }],
    })
    return `${sse([chunk({ role: "assistant", ...delta }, null), chunk({}, call ? "tool_calls" : "stop")])}data: [DONE]\n\n`
  },
}

const server = createServer(async (request, response) => {
  let text = ""
  for await (const part of request.setEncoding("utf8")) text += part
  const place = new URL(request.url, "http://localhost").pathname
  const provider = [anthropic, gemini, responses, completions].find((provider) => provider.path.test(place))
  let said
  try {
    const body = JSON.parse(text)
    const tools = provider.tools(body)
    said = { place, tools, answer: next(place, tools, provider.results(body).length), body }
  } catch {
    // Health checks and other requests that are not for a model.
    appendFileSync(log, `${JSON.stringify({ place, other: text.slice(0, 1000) })}\n`)
    response.writeHead(404, { "content-type": "application/json" }).end("{}")
    return
  }
  appendFileSync(log, `${JSON.stringify(said)}\n`)
  if (said.answer.hang) return
  const streamed = said.body.stream === true || place.endsWith(":streamGenerateContent")
  response.writeHead(200, { "content-type": streamed ? "text/event-stream" : "application/json" })
  response.end(provider.answer(said.answer, streamed))
})

server.listen(0, "127.0.0.1", () => {
  writeFileSync(`${portFile}.part`, `${server.address().port}`)
  renameSync(`${portFile}.part`, portFile)
})
