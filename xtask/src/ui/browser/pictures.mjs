// The two screenshots of the documentation. The temporary folder of the test becomes /home, nothing else is changed.
import { join } from "node:path";

export default async function pictures(harness) {
  const { page, settings } = harness;
  const project = await harness.projectAddress("invoice-api");
  await page.emulateMedia({ colorScheme: "light" });
  for (const [name, path, height] of [["ui-overview", "/", 800], ["ui-run", `${project}/r/${settings.killed}`, 1000]]) {
    await page.setViewportSize({ width: 1280, height });
    await harness.open(path);
    await page.waitForTimeout(500);
    await page.evaluate((home) => {
      const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(home, "/home");
    }, settings.project.split("/me/")[0]);
    await page.screenshot({ path: join(settings.folder, `${name}.png`) });
  }
  return "wrote docs/ui-overview.png and docs/ui-run.png";
}
