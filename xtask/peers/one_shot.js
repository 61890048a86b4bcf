// One operation in a process of its own, for `cargo xtask bench peers`: what a script does that is started for each step.
// Usage: node one_shot.js SYSTEM PLACE save STATE-FILE | latest | list
"use strict";

const fs = require("node:fs");
const { open } = require("./stores.js");

const [system, place, verb, file] = process.argv.slice(2);
const store = open(system, place);
if (verb === "save") {
  store.save("bench", JSON.stringify(JSON.parse(fs.readFileSync(file, "utf8")).state));
} else if (verb === "latest") {
  console.log(JSON.stringify(store.latest("bench")));
} else {
  console.log(store.list("bench", 50).map((row) => `${row.id}\t${row.created_at}\t${row.summary}`).join("\n"));
}
store.close();
