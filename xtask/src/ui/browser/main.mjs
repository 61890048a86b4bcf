// Runs one case in Chromium: node main.mjs CASE SETTINGS.json. Prints figures, or everything that was wrong and exits
// with 1.
import { readFileSync } from "node:fs";
import { Harness } from "./harness.mjs";

const [name, file] = process.argv.slice(2);
const settings = JSON.parse(readFileSync(file, "utf8"));
const { default: run } = await import(`./${name}.mjs`);
const harness = await Harness.start(settings);
try {
  const figures = await run(harness);
  if (figures && harness.problems.length === 0) console.log(figures);
  else if (figures) harness.problems.push(`figures: ${figures}`);
} catch (error) {
  harness.problems.push(`${error.stack ?? error}`);
} finally {
  await harness.close();
}
if (harness.problems.length > 0) {
  const shown = harness.problems.slice(0, 40);
  const rest = harness.problems.length - shown.length;
  console.error(`\n${shown.join("\n")}${rest > 0 ? `\nand ${rest} more` : ""}`);
  process.exit(1);
}
