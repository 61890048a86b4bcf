// Keys, copying, search while typing, zooming the timeline, and live updates. Every page also works without it,
// except copying and live updates.
"use strict";
(() => {
  const find = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const say = (text) => { find("#status").textContent = text; };

  // Copying
  async function copy(button) {
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "Copied";
      say("Copied");
    } catch {
      button.textContent = "Not copied";
      say("The browser did not allow copying");
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
    if (event.target.closest("[data-help]")) find("#help").showModal();
    // A merged mark links to a shorter period, in which its marks are shown separately
    const zoom = event.target.closest("#timeline a");
    const range = zoom && new URL(zoom.getAttribute("href"), location.href).searchParams;
    if (range?.has("from") || zoom?.matches("[data-zoom-all]")) {
      event.preventDefault();
      loadTimeline(range);
    }
  });

  // Rows that can be selected with keys
  let selected = null;
  function select(row) {
    if (!row) return;
    selected?.classList.remove("selected");
    selected = row;
    row.classList.add("selected");
    row.scrollIntoView({ block: "nearest" });
    find("th a, a", row)?.focus({ preventScroll: true });
  }
  function move(by) {
    const rows = all("[data-row]").filter((row) => row.offsetParent !== null);
    if (rows.length === 0) return;
    const focused = document.activeElement?.closest?.("[data-row]");
    const at = rows.indexOf(focused ?? selected);
    select(rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + by))]);
  }
  const follow = (selector) => { const link = find(selector); if (link) location.assign(link.href); };
  const keys = {
    "/": () => (find("#query") ?? find("#q")).focus(),
    j: () => move(1),
    k: () => move(-1),
    "[": () => follow("[data-previous]"),
    "]": () => follow("[data-next]"),
    h: () => location.assign("/"),
    c: () => { const button = find("[data-copy]"); if (button) copy(button); },
    "?": () => find("#help").showModal(),
    "+": () => find("[data-zoom-in]")?.click(),
    "=": () => find("[data-zoom-in]")?.click(),
    "-": () => find("[data-zoom-out]")?.click(),
    0: () => find("[data-zoom-all]")?.click(),
    ArrowLeft: () => find("[data-zoom-left]")?.click(),
    ArrowRight: () => find("[data-zoom-right]")?.click(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, dialog[open]")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const action = keys[event.key];
    if (!action) return;
    if (event.key.startsWith("Arrow") && !find("[data-zoom-left]")) return;
    event.preventDefault();
    action();
  });

  // Parts of the page that are loaded again
  const parse = (text) => new DOMParser().parseFromString(text, "text/html");
  function replaceParts(fresh) {
    for (const part of all("[data-live-part]")) {
      const next = fresh.getElementById(part.id);
      if (!next || next.innerHTML === part.innerHTML) continue;
      const known = new Set(all("[data-row] th a", part).map((link) => link.getAttribute("href")));
      const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const chosen = all("input:checked", part).map((input) => [input.name, input.value]);
      const opened = all("details", part).map((one) => one.open);
      const replacement = document.importNode(next, true);
      part.replaceWith(replacement);
      for (const [name, value] of chosen) {
        const input = all(`input[name="${CSS.escape(name)}"]`, replacement).find((one) => one.value === value);
        if (input) input.checked = true;
      }
      all("details", replacement).forEach((one, at) => { if (opened[at] !== undefined && known.size === 0) one.open = opened[at]; });
      if (focused) all("a", replacement).find((link) => link.getAttribute("href") === focused)?.focus({ preventScroll: true });
      if (known.size > 0) {
        for (const row of all("[data-row]", replacement)) {
          if (!known.has(find("th a", row)?.getAttribute("href"))) row.classList.add("new");
        }
      }
    }
  }
  let loading = false;
  let again = false;
  async function reload() {
    if (loading) { again = true; return; }
    loading = true;
    try {
      const response = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (response.ok) replaceParts(parse(await response.text()));
    } catch { /* The next event tries again. */ }
    if (timeline) loadTimeline(new URL(location.href).searchParams);
    loading = false;
    if (again) { again = false; reload(); }
  }

  // Live updates, only while the page is visible: browsers open few connections to one server
  const watched = document.body.dataset.live;
  let stream = null;
  let version = document.body.dataset.version;
  function connect() {
    if (!watched || stream || document.hidden) return;
    stream = new EventSource(`/live?${watched}`);
    stream.addEventListener("changed", (event) => {
      if (event.data === version) return;
      version = event.data;
      reload();
    });
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stream?.close(); stream = null; } else { connect(); }
  });
  connect();

  // The timeline, laid out for the width of the page
  const timeline = find("#timeline");
  let newestTimeline = 0;
  async function loadTimeline(range) {
    const number = ++newestTimeline;
    const address = new URL(location.href);
    for (const name of ["from", "to"]) {
      if (range.has(name)) address.searchParams.set(name, range.get(name)); else address.searchParams.delete(name);
    }
    const request = new URLSearchParams(address.search);
    request.set("width", Math.round(timeline.clientWidth));
    try {
      const response = await fetch(`${address.pathname.replace(/\/$/, "")}/timeline?${request}`);
      if (!response.ok || number !== newestTimeline) return;
      const fresh = parse(await response.text());
      const focused = ["in", "out", "all", "left", "right"].find((name) => document.activeElement?.matches(`[data-zoom-${name}]`));
      timeline.replaceChildren(...[...fresh.body.childNodes].map((node) => document.importNode(node, true)));
      if (focused) find(`[data-zoom-${focused}]`)?.focus({ preventScroll: true });
      if (address.href !== location.href) {
        history.replaceState(null, "", address);
        say("The timeline shows another period");
      }
    } catch { say("The timeline could not be loaded"); }
  }
  if (timeline) {
    const shown = find("[data-width]", timeline);
    const differs = shown && Math.abs(shown.dataset.width - timeline.clientWidth) > 40;
    if (differs || shown?.dataset.incomplete !== undefined) loadTimeline(new URL(location.href).searchParams);
    let resized = 0;
    addEventListener("resize", () => {
      clearTimeout(resized);
      resized = setTimeout(() => loadTimeline(new URL(location.href).searchParams), 200);
    });
  }
  document.addEventListener("wheel", (event) => {
    const plot = event.target.closest?.("#timeline svg");
    if (!plot || !event.ctrlKey) return;
    event.preventDefault();
    find(event.deltaY < 0 ? "[data-zoom-in]" : "[data-zoom-out]")?.click();
  }, { passive: false });

  // Search while typing
  const query = find("#query");
  if (query) {
    const form = query.form;
    let timer = 0;
    let request = null;
    const run = async () => {
      request?.abort();
      request = new AbortController();
      const parameters = new URLSearchParams(new FormData(form));
      try {
        const response = await fetch(`/search?${parameters}`, { signal: request.signal });
        const fresh = parse(await response.text());
        const results = fresh.getElementById("results");
        if (results) find("#results").replaceWith(document.importNode(results, true));
        history.replaceState(null, "", `/search?${parameters}`);
      } catch { /* A newer request replaced this one. */ }
    };
    form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(run, 120); });
    query.focus();
    query.setSelectionRange(query.value.length, query.value.length);
  }
})();
