// Hostile content in every field: it is shown as text, and nothing runs, opens or loads.
const MAX_BYTES = 6 << 20;

// Where hostile text must be found, as selectors.
const PARTS = {
  title: "h1", prompts: ".messages li", reply: ".reply", tasks: ".tasks li", decisions: ".decisions li", log: ".log li",
  commands: ".outcomes code", output: "pre", files: ".paths li", brief: ".brief", "a name in a tree": ".tree .key",
  "a value in a tree": ".tree .string", branch: ".facts dd", summary: ".rows .about", patch: "table.patch td",
  "the name of a file": "details.patch summary", timeline: "#timeline svg title",
};

export default async function hostile(harness) {
  const { page, settings } = harness;
  await harness.context.addInitScript(() => {
    window.__pwned = [];
    // What hostile content calls when it runs.
    for (const name of ["alert", "confirm", "prompt", "pwn"]) window[name] = () => { window.__pwned.push(name); };
  });
  let views = 0;
  let largest = 0;
  let zoomed = 0;
  const parts = new Set();
  const visited = new Set();
  const waiting = ["/"];
  const outside = [];
  while (waiting.length > 0 && views < settings.most) {
    const path = waiting.shift();
    if (visited.has(path)) continue;
    visited.add(path);
    const before = harness.problems.length;
    const response = await page.goto(new URL(path, settings.base).href);
    const size = (await response.body().catch(() => Buffer.alloc(0))).length;
    views += 1;
    largest = Math.max(largest, size);
    harness.check(size < MAX_BYTES, `${path} has ${size} bytes`);
    harness.check(response.status() < 500, `${path} is answered with ${response.status()}`);
    if (path.endsWith("/document")) {
      harness.check(response.headers()["content-type"].startsWith("text/plain"), `${path} is not plain text`);
      harness.check(response.headers()["x-content-type-options"] === "nosniff", `${path} may be sniffed`);
      continue;
    }
    await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
    await page.waitForTimeout(30);
    const found = await page.evaluate(inspect, PARTS);
    found.parts.forEach((part) => parts.add(part));
    for (const problem of found.problems) harness.problems.push(`${path}: ${problem}`);
    for (const link of found.links) {
      const url = new URL(link, settings.base);
      // Parts of a timeline are all alike.
      if (url.searchParams.has("from") && (zoomed += 1) > 3) continue;
      if (url.origin === settings.base) waiting.push(`${url.pathname}${url.search}`);
      else outside.push(link);
    }
    if (views % 5 === 1) await harness.checkOverflow(path);
    if (harness.problems.length > before + 5) harness.problems.length = before + 5;
  }
  // Links to other sites exist only with http and https, and tell them nothing.
  for (const link of new Set(outside)) {
    harness.check(/^https?:/.test(link), `there is a link to ${link.slice(0, 60)}`);
  }
  // The text must have arrived in all parts of the page, or else nothing was tested.
  if (!settings.short) {
    const missing = Object.keys(PARTS).filter((part) => !parts.has(part));
    harness.check(missing.length === 0, `no hostile text is shown in: ${missing.join(", ")}`);
  }
  harness.check(views >= settings.least, `only ${views} pages were found`);
  const run = `${await harness.projectAddress(settings.projectName)}/r/${settings.run}`;
  // Interaction: hover, focus and click run nothing either.
  await harness.open(run);
  for (const one of await page.locator("#timeline a, summary").all()) {
    await one.hover({ timeout: 500, force: true }).catch(() => {});
    await one.focus({ timeout: 500 }).catch(() => {});
  }
  const pwned = await page.evaluate(() => window.__pwned);
  harness.check(pwned.length === 0, `hostile content ran on hover or focus: ${pwned}`);
  const shown = await page.locator("main").innerText();
  harness.check(shown.includes("<script>"), "the hostile text itself is not visible");
  return `${views} pages, the largest with ${Math.round(largest / 1024)} KB; nothing ran, opened or loaded`;
}

// Runs in the page: what is not there in a harmless page.
function inspect(wanted) {
  const problems = [];
  if (window.__pwned?.length > 0) problems.push(`hostile content ran: ${window.__pwned}`);
  const scripts = [...document.scripts].filter((one) => !one.src.startsWith(`${location.origin}/assets/`) || one.textContent !== "");
  if (scripts.length > 0) problems.push(`${scripts.length} foreign scripts`);
  for (const name of ["iframe", "object", "embed", "base", "img", "video", "audio", "math", "template", "foreignObject", "animate", "set", "form[action^='http']", "meta[http-equiv]"]) {
    if (document.querySelector(name)) problems.push(`there is a <${name}>`);
  }
  if ([...document.querySelectorAll("style")].some((one) => !one.closest("svg.mp-timeline"))) problems.push("there is a <style>");
  for (const one of document.querySelectorAll("*")) {
    for (const { name, value } of one.attributes) {
      if (name.startsWith("on")) problems.push(`<${one.tagName}> has ${name}`);
      if (["href", "src", "action", "formaction", "xlink:href"].includes(name) && /^\s*(javascript|data|vbscript|file|blob):/i.test(value)) {
        problems.push(`<${one.tagName}> has ${name}=${value.slice(0, 40)}`);
      }
      if (name === "style") problems.push(`<${one.tagName}> has a style`);
    }
  }
  const text = document.documentElement.textContent;
  const unsafe = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200e\u200f]/.exec(text);
  if (unsafe) {
    const at = unsafe.index;
    problems.push(`unsafe character U+${unsafe[0].charCodeAt(0).toString(16)} near ${JSON.stringify(text.slice(Math.max(0, at - 40), at + 10))}`);
  }
  if (/\{\{7\*7\}\}/.test(text) === false && /\b49pwn\b/.test(text)) problems.push("a template was evaluated");
  const links = [...document.querySelectorAll("a[href], a[*|href]")]
    .map((one) => one.getAttribute("href")).filter((href) => href && !href.startsWith("#"));
  for (const one of document.querySelectorAll("a[target=_blank]")) {
    if (!/noopener/.test(one.rel) || !/noreferrer/.test(one.rel)) problems.push(`a link to ${one.href} tells where it comes from`);
  }
  const parts = Object.entries(wanted)
    .filter(([, selector]) => [...document.querySelectorAll(selector)].some((one) => one.textContent.includes("<script")))
    .map(([part]) => part);
  return { problems: [...new Set(problems)].slice(0, 8), links, parts };
}
