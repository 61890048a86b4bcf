// A system under test of `cargo xtask bench peers`: better-sqlite3 or JSON files.
// Usage: node worker.js SYSTEM PLACE. Reads one command as JSON per line and answers each with one line, which contains
// the time that the operation took.
"use strict";

const { open } = require("./stores.js");

const store = open(process.argv[2], process.argv[3]);

function timed(call) {
  const start = process.hrtime.bigint();
  const result = call();
  return { ns: Number(process.hrtime.bigint() - start), result };
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
  return { ns: times.reduce((sum, time) => sum + time, 0), times, failed };
}

function answer(command) {
  const run = command.run ?? "bench";
  switch (command.do) {
    case "save":
      return { ns: timed(() => store.save(run, command.state)).ns };
    case "latest": {
      const { ns, result } = timed(() => store.latest(run));
      return { ns, count: result.length };
    }
    case "list": {
      const { ns, result } = timed(() => store.list(run, command.limit));
      return { ns, count: result.length };
    }
    case "fill":
      return { ns: timed(() => store.fill(run, command.count, command.state)).ns };
    case "repeat":
      return repeat(run, command);
    case "keep":
      return { ns: timed(() => store.keep(run, command.count)).ns };
    case "close":
      return { ns: timed(() => store.close()).ns };
    default:
      throw new Error(`unknown command ${command.do}`);
  }
}

process.stdout.write('{"ns":0}\n');
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
