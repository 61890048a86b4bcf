// A system under test of `cargo xtask bench peers`: better-sqlite3 or JSON files.
// Usage: node worker.js SYSTEM PLACE. Reads one command as JSON per line and answers each with one line, which contains
// the time of each operation in nanoseconds.
"use strict";

const { open } = require("./stores.js");

const store = open(process.argv[2], process.argv[3]);

function timed(call) {
  const start = process.hrtime.bigint();
  const result = call();
  return { ns: Number(process.hrtime.bigint() - start), result };
}

/** Reads some times; `count` is the length of the result. */
function read(count, call) {
  const reads = Array.from({ length: count }, () => timed(call));
  return { times: reads.map(({ ns }) => ns), count: reads[0].result.length };
}

function repeat(run, { states, ms = 3_600_000, count = Infinity }) {
  const end = performance.now() + ms;
  const times = [];
  let failed = 0;
  while (performance.now() < end && times.length + failed < count) {
    const state = states[times.length % states.length];
    try {
      times.push(timed(() => store.save(run, state)).ns);
    } catch (error) {
      if (error.code !== "SQLITE_BUSY") throw error;
      failed++;
    }
  }
  return { times, failed };
}

function answer(command) {
  const run = command.run ?? "bench";
  switch (command.do) {
    case "save":
      return { times: [timed(() => store.save(run, command.state)).ns] };
    case "latest":
      return read(command.count, () => store.latest(run));
    case "list":
      return read(command.count, () => store.list(run, command.limit));
    case "fill":
      store.fill(run, command.count, command.state);
      return {};
    case "repeat":
      return repeat(run, command);
    case "keep":
      store.keep(run, command.count);
      return {};
    case "close":
      store.close();
      return {};
    default:
      throw new Error(`unknown command ${command.do}`);
  }
}

process.stdout.write("{}\n");
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => {
  rest += chunk;
  for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
    const line = rest.slice(0, end);
    rest = rest.slice(end + 1);
    process.stdout.write(`${JSON.stringify(answer(JSON.parse(line)))}\n`);
  }
});
