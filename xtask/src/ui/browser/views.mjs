// Every view with realistic data: content, accessibility, both colour schemes, three widths, screenshots.
import { join } from "node:path";

const WIDTHS = { phone: 360, desktop: 1280, wide: 2560 };

export default async function views(harness) {
  const { page, settings } = harness;
  const project = await harness.projectAddress("invoice-api");
  const prices = await harness.projectAddress("price-import");
  const killed = `${project}/r/${settings.killed}`;
  const last = await lastSequence(harness, killed);
  const all = [
    ["overview", "/", overview],
    ["project", project, runs],
    ["run", killed, run],
    ["run-continued", `${project}/r/${settings.continued}`, continued],
    ["checkpoint", `${killed}/c/${last}`, checkpoint],
    ["checkpoint-state", `${prices}/r/reprice/c/${await sequenceWithState(harness, prices)}`, state],
    ["diff", `${project}/diff?a=${settings.killed}@1&b=${settings.killed}@${last}`, diff],
    ["search", "/search?q=rounding", search],
    ["not-found", `${project}/r/there-is-none`, notFound],
  ];
  let audits = 0;
  for (const [name, path, check] of all) {
    const expected = name === "not-found" ? 404 : 200;
    const response = await page.goto(new URL(path, settings.base).href);
    harness.check(response.status() === expected, `${name} is answered with ${response.status()}`);
    const before = harness.problems.length;
    await check(harness, page);
    if (name === "not-found") {
      // The browser itself reports the status in the console.
      const own = harness.problems.splice(before > 0 ? before - 1 : 0);
      harness.problems.push(...own.filter((text) => !text.includes("404 (Not Found)")));
    }
    audits += await appearance(harness, name, settings.short);
  }
  await assets(harness);
  return `${all.length} views, ${audits} audits by axe, screenshots in target/ui/screenshots`;
}

// Checks a view in both colour schemes and all widths, and takes its pictures.
async function appearance(harness, name, short) {
  const { page, settings } = harness;
  let audits = 0;
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const [kind, width] of Object.entries(WIDTHS)) {
      if (short && !((kind === "desktop" && scheme === "dark") || (kind === "phone" && scheme === "light"))) continue;
      await page.setViewportSize({ width, height: 900 });
      const what = `${name} (${scheme}, ${width} px)`;
      await harness.checkAccessibility(what);
      audits += 1;
      await harness.checkOverflow(what);
      const label = kind === "desktop" ? scheme : kind === "phone" && scheme === "light" ? "phone" : null;
      if (label && !short) {
        await page.screenshot({ path: join(settings.screenshots, `${name}-${label}.png`), fullPage: true });
      }
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
  return audits;
}

// The number of the newest checkpoint.
async function lastSequence(harness, address) {
  await harness.open(address);
  const text = await harness.page.locator("#checkpoints tbody th a").first().textContent();
  return Number(text.replace("@", ""));
}

// The number of the checkpoint with a state.
async function sequenceWithState(harness, prices) {
  await harness.open(`${prices}/r/reprice`);
  const row = harness.page.locator("#checkpoints tbody tr", { hasText: "Half of the suppliers" });
  return Number((await row.locator("th a").textContent()).replace("@", ""));
}

async function has(harness, page, what, ...texts) {
  const shown = (await page.locator("main").innerText()).replace(/\s+/g, " ");
  for (const text of texts) harness.check(shown.includes(text), `${what} does not show "${text}"`);
}

async function overview(harness, page) {
  await has(harness, page, "the overview", "invoice-api", "price-import", "mobile-app", harness.settings.live);
  const projects = await page.locator("#overview table").last().locator("tbody tr").count();
  harness.check(projects === 3, `the overview shows ${projects} projects`);
}

async function runs(harness, page) {
  const { killed, continued, live } = harness.settings;
  await has(harness, page, "the project", killed, continued, live, "Render the header");
}

async function run(harness, page) {
  await has(harness, page, "the run", "Add tax to invoices", "Round half up at home", "Round per line", "cargo test --test invoice",
    "psql -f migrations/0007_rates.sql", "before-rounding", "pinned", "milepost -C");
  const rows = await page.locator("#checkpoints tbody tr").count();
  harness.check(rows >= 4, `the run shows ${rows} checkpoints`);
  const svg = page.locator("#timeline svg").first();
  harness.check(await svg.count() === 1, "the run has no timeline");
  if (await svg.count() === 1) {
    const label = (await svg.getAttribute("aria-label")) ?? (await svg.getAttribute("aria-labelledby"))
      ?? (await svg.locator("title").first().textContent().catch(() => null));
    harness.check(Boolean(label), "the timeline has no accessible name");
    const points = await svg.locator("a").count();
    harness.check(points >= 4, `the timeline links to ${points} checkpoints`);
  }
}

async function continued(harness, page) {
  await has(harness, page, "the run that continues", "Continue where the last session stopped");
}

async function checkpoint(harness, page) {
  await has(harness, page, "the checkpoint", "Tasks", "Decisions", "Files", "Brief", "Document", "verified", "Reference",
    "src/invoice.rs", "Store rates in hundredths of a percent", "Round per line");
  const brief = await page.locator("article.brief").innerText();
  harness.check(brief.length > 100, `the brief has ${brief.length} characters`);
  const text = await page.request.get(`${page.url()}/document`);
  harness.check(text.headers()["content-type"].startsWith("text/plain"), "the document is not plain text");
  harness.check(JSON.parse(await text.text()).run_id === harness.settings.killed, "the document is another one");
}

async function state(harness, page) {
  await has(harness, page, "the checkpoint with state", "exchange_rate", "nordwind", "State", "Metadata", "batch-2");
  // The brief is rendered.
  harness.check(await page.locator("article.brief table td").count() === 9, "the table of the brief is not rendered");
  harness.check(await page.locator("article.brief a[href='https://example.org/runbook']").count() === 1, "the link of the brief is missing");
  // The tree unfolds.
  const folded = page.locator(".tree details:not([open])").first();
  const summary = folded.locator(":scope > summary");
  if (await folded.count() > 0) {
    const handle = await folded.elementHandle();
    const visible = await summary.isVisible();
    if (visible) {
      await summary.click();
      harness.check(await handle.evaluate((one) => one.open), "a branch of the tree does not unfold");
    }
  } else {
    harness.problems.push("no branch of the tree is folded");
  }
}

async function diff(harness, page) {
  await has(harness, page, "the comparison", "src/invoice.rs", "Swap A and B", "pub tax: Rate,");
  const added = await page.locator("table.patch td.added").count();
  const removed = await page.locator("table.patch td.removed").count();
  harness.check(added > 5 && removed > 0, `the patch shows ${added} added and ${removed} removed lines`);
  // Side by side: a changed line has both versions in one row.
  const both = await page.locator("table.patch tr:has(td.removed):has(td.added)").count();
  harness.check(both > 0, "no row shows both versions of a line");
}

async function search(harness, page) {
  await page.locator("#query").waitFor({ timeout: 3000 }).catch(() => harness.problems.push("there is no search page"));
  if (await page.locator("#query").count() === 0) return;
  await page.locator("#results").getByText(/rounding/i).first().waitFor();
  // While typing, the results change without a reload.
  await page.evaluate(() => { window.__same = true; });
  await page.locator("#query").fill("supplier");
  await page.locator("#results a[href*='reprice']").first().waitFor({ timeout: 5000 });
  harness.check(await page.evaluate(() => window.__same === true), "the search reloads the page");
  harness.check(page.url().includes("q=supplier"), "the address does not contain the search");
  harness.check(await page.locator("#results mark").count() > 0, "matches are not marked");
  await page.locator("#query").fill("xyzzyplugh");
  await page.waitForFunction(() => document.querySelectorAll("#results a[href*='/r/']").length === 0, null, { timeout: 5000 });
  await page.locator("#query").fill("rounding");
  await page.locator("#results a[href*='/r/']").first().waitFor({ timeout: 5000 });
}

async function notFound(harness, page) {
  await has(harness, page, "the error page", "Not found", "All projects");
}

// Style and script are cached for good, pages are not cached at all.
async function assets(harness) {
  const { page, settings } = harness;
  await harness.open("/");
  for (const selector of ["link[rel=stylesheet]", "script"]) {
    const address = await page.locator(selector).first().evaluate((one) => one.href ?? one.src);
    const url = address || (await page.locator(selector).first().evaluate((one) => one.src));
    const response = await page.request.get(url);
    harness.check(response.headers()["cache-control"].includes("immutable"), `${url} is not cached`);
  }
  const response = await page.request.get(settings.base);
  harness.check(response.headers()["cache-control"] === "no-store", "pages are cached");
}
