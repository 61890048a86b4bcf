// A run's page is open while the real binary saves into the run: the checkpoint appears without a reload, and focus and
// choices survive. Then the process of the run is killed, and the page says so.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const execute = promisify(execFile);
// The time from the acknowledged save to the page.
const LIMIT_MS = 1000;

export default async function live(harness) {
  const { page, settings } = harness;
  const project = await harness.projectAddress("invoice-api");
  const milepost = (...words) => execute(settings.milepost, words, { cwd: settings.project, env: settings.environment });
  await harness.open(`${project}/r/${settings.live}`);
  await page.evaluate(() => { window.__same = true; });
  await page.waitForTimeout(700);
  // Two saves by hand, so that A and B can be others than the first two.
  await milepost("save", "--run", settings.live, "first while watched");
  await milepost("save", "--run", settings.live, "second while watched");
  await row(page, "second while watched").waitFor();
  const oldest = page.locator("#checkpoints tbody tr").last();
  const chosen = await oldest.locator("input[name=a]").getAttribute("value");
  await oldest.locator("input[name=a]").check();
  await oldest.locator("th a").focus();
  const focused = await page.evaluate(() => document.activeElement.getAttribute("href"));
  const times = [];
  const rounds = settings.short ? 3 : 8;
  for (let round = 0; round < rounds; round += 1) {
    // Watches from before the save, because the page may be faster than this process.
    const text = `watched save ${round} of ${rounds}`;
    const shown = page.evaluate((wanted) => new Promise((resolve) => {
      const look = () => {
        if (document.querySelector("#checkpoints")?.textContent.includes(wanted)) resolve(Date.now());
        else setTimeout(look, 5);
      };
      look();
    }), text);
    await milepost("save", "--run", settings.live, text);
    const acknowledged = Date.now();
    const at = await Promise.race([shown, page.waitForTimeout(10_000).then(() => null)]);
    if (at === null) throw new Error(`"${text}" did not appear within 10 s`);
    times.push(Math.max(0, at - acknowledged));
    await page.waitForTimeout(150 + round * 37);
  }
  const worst = Math.max(...times);
  harness.check(worst <= LIMIT_MS, `a checkpoint appeared ${worst} ms after the save: ${times.join(", ")}`);
  harness.check(await page.evaluate(() => window.__same === true), "the page was reloaded");
  const now = await page.evaluate(() => document.activeElement.getAttribute("href"));
  harness.check(now === focused, `the focus moved from ${focused} to ${now}`);
  const checked = await page.locator("input[name=a]:checked").getAttribute("value");
  harness.check(checked === chosen, `A changed from ${chosen} to ${checked}`);
  harness.check(await page.locator("input[name=a]:checked").count() === 1, "A is chosen twice");
  // What is folded out stays so.
  const state = page.locator("#head .lead .state").first();
  const before = await state.textContent();
  process.kill(settings.liveProcess, "SIGKILL");
  const killed = Date.now();
  await page.waitForFunction((old) => document.querySelector("#head .lead .state")?.textContent !== old, before, { timeout: 10_000 });
  const after = await state.textContent();
  const took = Date.now() - killed;
  harness.check(/interrupted|crash|stopped/.test(after), `a killed run is shown as ${after}`);
  harness.check(took < 5000, `the killed run was noticed after ${took} ms`);
  // The overview and the list of runs change as well.
  await harness.open(project);
  await page.waitForTimeout(500);
  await milepost("save", "--run", "another-run", "a new run appears in the list");
  await page.locator("main").getByText("another-run").first().waitFor({ timeout: 5000 });
  times.sort((a, b) => a - b);
  return `a save is on the page after ${times[Math.floor(times.length / 2)]} ms (at most ${worst} ms); ${before} becomes ${after} after ${took} ms`;
}

const row = (page, text) => page.locator("#checkpoints tbody tr", { hasText: text });
