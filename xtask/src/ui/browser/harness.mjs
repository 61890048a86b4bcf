// A browser with a session on the page. Collects everything that must not happen on any page: errors in the console,
// violations of the content security policy, dialogs, failed requests, and requests to other servers.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

// As root, Chromium has no sandbox of its own. Nothing may use the network.
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];

export class Harness {
  static async start(settings) {
    const harness = new Harness();
    harness.settings = settings;
    harness.problems = [];
    harness.profile = mkdtempSync(join(tmpdir(), "milepost-ui-profile-"));
    const { chromium } = await import(settings.playwright);
    harness.context = await chromium.launchPersistentContext(harness.profile, {
      executablePath: settings.chromium, args: FLAGS, headless: true, viewport: { width: 1280, height: 900 },
    });
    await harness.context.addInitScript(() => {
      document.addEventListener("securitypolicyviolation", (event) => {
        console.error(`violates ${event.effectiveDirective}: ${event.blockedURI} ${event.sample}`);
      });
    });
    await harness.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: settings.base });
    harness.context.setDefaultTimeout(15_000);
    harness.context.on("request", (request) => harness.watchRequest(request));
    harness.context.on("response", (response) => {
      if (response.status() >= 500) harness.problems.push(`${response.status()} for ${response.url()}`);
    });
    harness.page = await harness.newPage();
    await harness.page.goto(settings.url);
    await harness.page.waitForURL(`${settings.base}/`);
    return harness;
  }

  // A page whose console and dialogs are watched.
  async newPage() {
    const page = await this.context.newPage();
    page.on("console", (message) => {
      if (message.type() === "error") this.problems.push(`console on ${page.url()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => this.problems.push(`script on ${page.url()}: ${error.message}`));
    page.on("dialog", (dialog) => {
      this.problems.push(`dialog on ${page.url()}: ${dialog.message()}`);
      dialog.dismiss().catch(() => {});
    });
    return page;
  }

  watchRequest(request) {
    const url = new URL(request.url());
    if (url.origin !== this.settings.base) this.problems.push(`request to ${request.url().slice(0, 200)}`);
  }

  check(condition, text) {
    if (!condition) this.problems.push(text);
  }

  // Opens a path and waits until it is loaded. Live updates keep a connection open, so the network is never idle.
  async open(path, page = this.page) {
    const response = await page.goto(new URL(path, this.settings.base).href, { waitUntil: "load" });
    this.check(response.ok(), `${path} is answered with ${response.status()}`);
    return response;
  }

  // The address of a project by the name of its folder.
  async projectAddress(name) {
    await this.open("/");
    return this.page.locator("#overview table").last().getByRole("link", { name, exact: true }).getAttribute("href");
  }

  // Serious problems of accessibility on the page.
  async checkAccessibility(what, page = this.page) {
    this.axe ??= readFileSync(this.settings.axe, "utf8");
    await page.evaluate(this.axe);
    const results = await page.evaluate(async () => {
      // Rules of best practice are checked as well.
      const found = await window.axe.run(document, { resultTypes: ["violations"] });
      return found.violations.map((one) => ({
        rule: one.id, impact: one.impact, count: one.nodes.length,
        where: one.nodes.slice(0, 3).map((node) => `${node.target.join(" ")}: ${node.failureSummary ?? ""} ${node.html.slice(0, 160)}`),
      }));
    });
    for (const one of results) {
      if (["serious", "critical"].includes(one.impact)) {
        this.problems.push(`${what}: ${one.impact} ${one.rule} (${one.count}): ${one.where.join(" | ").replace(/\s+/g, " ")}`);
      }
    }
    return results.length;
  }

  // The page must not scroll sideways; its tables may.
  async checkOverflow(what, page = this.page) {
    const wide = await page.evaluate(() => {
      const { scrollWidth, clientWidth } = document.documentElement;
      if (scrollWidth <= clientWidth) return null;
      const culprits = [...document.querySelectorAll("body *")]
        .filter((one) => one.getBoundingClientRect().right > clientWidth + 1 && !one.closest(".scroll, pre, .command code, svg"))
        .slice(0, 3).map((one) => `${one.tagName}.${one.className}`);
      return `${scrollWidth} px wide instead of ${clientWidth}: ${culprits}`;
    });
    this.check(wide === null, `${what} overflows: ${wide}`);
  }

  async close() {
    await this.context.close().catch(() => {});
    rmSync(this.profile, { recursive: true, force: true });
  }
}
