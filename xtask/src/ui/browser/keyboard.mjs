// Everything with keys only.
export default async function keyboard(harness) {
  const { page, settings } = harness;
  const project = await harness.projectAddress("invoice-api");
  const run = `${project}/r/${settings.killed}`;
  const focused = () => page.evaluate(() => {
    const one = document.activeElement;
    return `${one.tagName.toLowerCase()}${one.id ? `#${one.id}` : ""} ${one.textContent.trim().slice(0, 40)}`;
  });
  const press = (key) => page.keyboard.press(key);

  // The skip link is the first stop, becomes visible, and leads to the content.
  await harness.open("/");
  await press("Tab");
  harness.check((await focused()).includes("Skip to content"), `the first stop is ${await focused()}`);
  const box = await page.locator(".skip").boundingBox();
  harness.check(box.x >= 0 && box.y >= 0, "the skip link is not visible when it has the focus");
  await press("Enter");
  harness.check((await focused()).startsWith("main#content"), `the skip link leads to ${await focused()}`);
  await press("Tab");
  const first = await page.evaluate(() => document.activeElement.closest("main") !== null);
  harness.check(first, "after the skip link, Tab leaves the content");

  await focusOrder(harness, "/");
  await focusOrder(harness, run);

  // j and k select rows, Enter opens.
  await harness.open(project);
  await press("j");
  const top = await focused();
  await press("j");
  harness.check((await focused()) !== top, "j does not move to the next row");
  await press("k");
  harness.check((await focused()) === top, "k does not move back");
  await Promise.all([page.waitForURL(/\/r\//), press("Enter")]);

  // [ and ] change the checkpoint.
  await harness.open(`${run}/c/2`);
  await Promise.all([page.waitForURL(/\/c\/3$/), press("]")]);
  await Promise.all([page.waitForURL(/\/c\/2$/), press("[")]);

  // The dialog with the keys.
  await press("?");
  harness.check(await page.locator("dialog#help").evaluate((one) => one.open), "? opens no dialog");
  await harness.checkAccessibility("the dialog");
  await press("Escape");
  harness.check(!(await page.locator("dialog#help").evaluate((one) => one.open)), "Escape does not close the dialog");

  // h leads to all projects, / to the search.
  await Promise.all([page.waitForURL(`${settings.base}/`), press("h")]);
  await press("/");
  harness.check((await focused()).startsWith("input#q"), `/ leads to ${await focused()}`);
  harness.check((await page.locator("#q").inputValue()) === "", "/ is typed into the search box");
  await page.keyboard.type("rounding");
  await Promise.all([page.waitForURL(/\/search\?/), press("Enter")]);
  harness.check(await page.locator("#results a[href*='/r/']").count() > 0, "the search by keys finds nothing");
  await press("Escape");
  await press("j");
  const hit = await page.evaluate(() => document.activeElement.closest("#results") !== null);
  harness.check(hit, "j does not select a hit of the search");

  await timeline(harness, run);

  // Letters that are typed are no commands.
  await harness.open(project);
  await press("/");
  await page.keyboard.type("hjk?");
  harness.check(page.url().endsWith(project) && (await page.locator("#q").inputValue()) === "hjk?", "keys act while typing");

  // Comparing with keys only.
  await harness.open(run);
  await page.locator("input[name=a]").last().focus();
  await press("Space");
  await page.locator("button[type=submit]", { hasText: "Compare" }).focus();
  await Promise.all([page.waitForURL(/\/diff\?/), press("Enter")]);
  harness.check(await page.locator("h1", { hasText: "Comparison" }).count() === 1, "the comparison does not open");

  // c copies a command.
  await harness.open(run);
  await press("c");
  await page.waitForTimeout(100);
  const copied = await page.evaluate(() => navigator.clipboard.readText()).catch((error) => `${error}`);
  harness.check(copied.startsWith("milepost -C"), `c copied ${copied}`);
  return "skip link, rows, checkpoints, dialog, search, timeline, comparison, copying and Tab order work with keys";
}

// Every stop of the Tab key must be visible and show that it has the focus, in the order of the page.
async function focusOrder(harness, path) {
  const { page } = harness;
  await harness.open(path);
  const seen = [];
  for (let stop = 0; stop < 60; stop += 1) {
    await page.keyboard.press("Tab");
    const one = await page.evaluate(() => {
      const active = document.activeElement;
      if (!active || active === document.body) return null;
      const style = getComputedStyle(active);
      const box = active.getBoundingClientRect();
      const shapes = [active, ...active.querySelectorAll("*")];
      const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
      // Marks of the timeline show the focus with a stroke.
      const stroked = active.closest("svg") && shapes.some((shape) => parseFloat(getComputedStyle(shape).strokeWidth) >= 2);
      active.dataset.stop ??= `${document.querySelectorAll("[data-stop]").length}`;
      return {
        id: active.dataset.stop, name: active.textContent.trim().slice(0, 30) || active.getAttribute("aria-label") || active.id,
        marked: outlined || Boolean(stroked), visible: box.width > 0 && box.height > 0,
        position: [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")].indexOf(active),
      };
    });
    if (one === null || seen.some((known) => known.id === one.id)) break;
    seen.push(one);
    harness.check(one.visible, `${path}: the focus is on something invisible: ${one.name}`);
    harness.check(one.marked, `${path}: the focus on "${one.name}" is not visible`);
  }
  harness.check(seen.length >= 8, `${path}: Tab stops only ${seen.length} times`);
  const order = seen.map((one) => one.position);
  harness.check(order.every((at, index) => index === 0 || at > order[index - 1]), `${path}: the order of Tab is ${order}`);
}

// + - 0 and the arrow keys change the period of the timeline.
async function timeline(harness, run) {
  const { page } = harness;
  await harness.open(run);
  const period = () => {
    const query = new URL(page.url()).searchParams;
    return query.has("from") ? [Number(query.get("from")), Number(query.get("to"))] : null;
  };
  const change = async (key) => {
    const before = page.url();
    await page.keyboard.press(key);
    await page.waitForFunction((old) => location.href !== old, before, { timeout: 3000 })
      .catch(() => harness.problems.push(`${key} does not change the timeline`));
    return period();
  };
  if (await page.locator("#timeline svg").count() === 0) {
    harness.problems.push("there is no timeline");
    return;
  }
  const near = await change("+");
  harness.check(near !== null, "+ does not zoom");
  if (near === null) return;
  const nearer = await change("+");
  harness.check(nearer[1] - nearer[0] < near[1] - near[0] || near[1] - near[0] <= 1000, "a second + does not zoom further");
  const left = await change("ArrowLeft");
  harness.check(left[0] < nearer[0], "← does not move the timeline to earlier times");
  const right = await change("ArrowRight");
  harness.check(right[0] > left[0], "→ does not move the timeline to later times");
  const wide = await change("-");
  harness.check(wide === null || wide[1] - wide[0] > right[1] - right[0], "- does not zoom out");
  await page.keyboard.press("+");
  await page.waitForTimeout(300);
  await page.keyboard.press("0");
  await page.waitForFunction(() => !location.search.includes("from="), null, { timeout: 3000 })
    .catch(() => harness.problems.push("0 does not show the whole run"));
}
