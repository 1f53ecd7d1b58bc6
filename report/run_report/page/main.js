// The frame of the page: routes, keys, light and dark, and the live server's news.

/** @type {Record<string, [string, string][]>} address and title of the pages of a folder, by its kind */
const PAGES = {
  run: [["", "Overview"], ["groups", "Groups"], ["failures", "Failures"], ["compare", "Compare"]],
  benchmark: [["", "Results"], ["groups", "Episodes"], ["failures", "Failures"], ["compare", "Compare"]],
  ablation: [["", "Results"], ["flips", "Flipped tasks"], ["failures", "Failures"], ["compare", "Compare"]],
};
const KEYS = [["j, k", "next and previous turn, or row"], ["h, l", "previous and next episode or group"], ["u", "up"],
  ["/", "search"], ["1 – 4", "pages"], ["t", "light or dark"], ["?", "this list"]];
const ASK_EVERY = 2000; // milliseconds between questions to the live server

const feed = new Feed(JSON.parse(/** @type {string} */ (document.getElementById("data")?.textContent)));
const find = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
let drawn = 0;

/** Return the run of the address, the parts of the address behind it, and the word that was searched for. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?"), words = path.split("/").filter(Boolean);
  const run = scope.path.split("/")[1] ?? "";
  return { run, words: run ? words.slice(2) : words, word: new URLSearchParams(query).get("q") ?? "" };
}

/** Return the store of the run of the address. */
function current() {
  const { run } = route();
  return new Store(feed, run && `${run}:`);
}

/** Draw the page of the address; `keep` leaves the reader where he is. @param {boolean} [keep] */
async function rerender(keep = true) {
  const mine = ++drawn, at = location.hash, { run, words, word } = route(), [page = "", ...numbers] = words, [a, b, c, d] = numbers.map(Number), store = current();
  frame(store, page, word);
  let content;
  try {
    if (run && !feed.parts.has(`${run}:run`)) content = missing("This report has no such run.");
    else if (page === "") content = { run: overview, benchmark: benchmarkPage, ablation: ablationPage }[store.run.kind](store);
    else if (page === "groups") content = groupsPage(store);
    else if (page === "group") content = await groupPage(store, a, b);
    else if (page === "drawn") content = drawnPage(store, a);
    else if (page === "graph") content = await graphPage(store, a, b);
    else if (page === "turn") content = await trajectoryPage(store, a, b, c, d || 0, word);
    else if (page === "panel") content = panelPage(store, a);
    else if (page === "flips" && store.run.kind === "ablation") content = flipsPage(store);
    else if (page === "failures") content = failuresPage(store);
    else if (page === "compare") content = comparePage(store);
    else if (page === "search") content = searchPage(store, word);
    else content = missing("This report has no such page.");
  } catch (error) {
    content = missing(`This part of the report cannot be shown: ${error}`);
  }
  if (mine !== drawn) return;
  const view = find("view"), place = keep ? reading(view) : null;
  view.className = `page-${page || "overview"}`;
  view.replaceChildren();
  fill(view, {}, [run && h("p", { class: "crumbs" }, h("a", { href: "#//" }, "Results"), ` › ${line(store.run.name, 80)}`), content.flat()]);
  view.dataset.ready = at;
  if (place) resume(view, place);
  else if (page === "turn") reveal(d || 0);
  else scrollTo(0, 0);
}

/** @param {number} t */
function reveal(t) {
  const card = document.getElementById(`turn-${t}`);
  if (!card || t === 0) return scrollTo(0, 0);
  document.querySelectorAll(".card.here").forEach((one) => one.classList.remove("here"));
  card.classList.add("here");
  card.scrollIntoView({ block: "start" });
  card.focus({ preventScroll: true });
}

/** @param {Store} store @param {string} page @param {string} word */
function frame(store, page, word) {
  const under = ["group", "turn", "graph", "panel", "drawn"].includes(page) ? "groups" : page, pages = PAGES[store.run.kind];
  const old = /** @type {HTMLInputElement | null} */ (document.getElementById("word"));
  document.title = `${line(store.run.name, 60)} · report`;
  if (old) {
    if (document.activeElement !== old) old.value = word;
    document.querySelector("#top nav")?.replaceChildren(...links(pages, under));
    return;
  }
  find("top").replaceChildren(
    h("b", { class: "mark" }, "turncredit"),
    h("nav", {}, links(pages, under)),
    h("input", { id: "word", type: "search", "aria-label": "search all turns", placeholder: "Search all turns  /", value: word,
      onkeydown: (/** @type {any} */ e) => { if (e.key === "Enter") location.hash = address(`#/search?q=${encodeURIComponent(e.target.value)}`); if (e.key === "Escape") e.target.blur(); } }),
    h("span", { id: "live", role: "status", hidden: !feed.live }, "live"),
    h("button", { onclick: theme, title: "light or dark (t)", "aria-label": "light or dark" }, "◐"),
    h("button", { onclick: help, title: "keys (?)", "aria-label": "keys" }, "?"));
  find("foot").replaceChildren(h("p", {}, "Advantages are computed from the stored episodes, iteration by iteration, when the report is written: a rule with memory begins anew in each, and a KL term in the reward is not in them. Screens are the images that were stored with an episode; where there are none, those of the episodes that ", h("code", {}, "--screens"), " has replayed."));
  find("help").replaceChildren(h("h2", {}, "Keys"), h("dl", {}, KEYS.map(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)]).flat()),
    h("button", { onclick: () => /** @type {any} */ (find("help")).close() }, "close"));
}

/** @param {[string, string][]} pages @param {string} under */
function links(pages, under) {
  return pages.map(([key, title]) => h("a", { href: `#/${key}`, "aria-current": key === under && "page" }, title));
}

function theme() {
  const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
}

function help() {
  /** @type {any} */ (find("help")).showModal();
}

/** Go to the next or the previous card or row. @param {number} by */
function move(by) {
  const cards = [...document.querySelectorAll(".card[data-turn]")], rows = cards.length ? cards : [...document.querySelectorAll("#view .strip, #view .row, #view tbody tr, #view .hits li")];
  const old = rows.findIndex((one) => one.classList.contains("here")), next = rows[Math.max(0, Math.min(rows.length - 1, old + by))];
  if (!next) return;
  rows[old]?.classList.remove("here");
  next.classList.add("here");
  next.scrollIntoView({ block: cards.length ? "start" : "nearest" });
  const focus = /** @type {HTMLElement | null} */ (cards.length ? next : next.querySelector(next.matches(".row:not(.named)") ? ".cells a" : "a"));
  focus?.focus({ preventScroll: true });
  if (cards.length) {
    const path = route().words.slice(0, 4).join("/");
    history.replaceState(null, "", address(`#/${path}/${/** @type {HTMLElement} */ (next).dataset.turn}`));
  }
}

addEventListener("keydown", (event) => {
  const inField = /** @type {HTMLElement} */ (event.target).closest("input, select, textarea, dialog[open]");
  if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
  const link = (/** @type {string} */ rel) => /** @type {HTMLElement | null} */ (document.querySelector(`#view a[rel=${rel}]`))?.click();
  /** @type {Record<string, () => void>} */
  const keys = { j: () => move(1), k: () => move(-1), h: () => link("prev"), l: () => link("next"), u: () => link("up"), t: theme, "?": help, "/": () => find("word").focus() };
  PAGES[current().run.kind].forEach(([page], place) => { keys[String(place + 1)] = () => { location.hash = address(`#/${page}`); }; });
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

addEventListener("hashchange", () => {
  const { run, words } = route(), base = `#/${run ? `run/${run}/` : ""}`;
  const episode = words[0] === "turn" && `${base}${words.slice(0, 4).join("/")}/`;
  if (episode && find("view").dataset.ready?.startsWith(episode) && document.getElementById(`turn-${words[4] ?? 0}`)) return reveal(Number(words[4] ?? 0));
  void rerender(false);
});

/**
 * Where the reader is: the card or strip at the top, what is open, focused and marked, and how far boxes are scrolled.
 * @typedef {{top: number, anchor: string, at: number, open: string[], focus: string, here: string, boxes: [string, number, number][]}} Reading
 */

/** Return a name for an element that it has again when the page is drawn anew. @param {Element} element */
function nameOf(element) {
  const card = element.closest("[data-turn]"), same = [...(card ?? find("view")).querySelectorAll(element.tagName)];
  return `${card?.id ?? ""} ${element.tagName} ${same.indexOf(/** @type {any} */ (element))}`;
}

/** @param {HTMLElement} view @param {string} name @returns {HTMLElement | undefined} */
function named(view, name) {
  const [card, tag, place] = name.split(" "), within = card ? document.getElementById(card) : view;
  return tag ? /** @type {HTMLElement[]} */ ([...(within?.querySelectorAll(tag) ?? [])])[Number(place)] : (within ?? undefined);
}

/** @param {HTMLElement} view @returns {Reading} */
function reading(view) {
  const top = [...view.querySelectorAll(".card[data-turn]")].find((card) => card.getBoundingClientRect().bottom > 60), focus = document.activeElement;
  return {
    top: scrollY, anchor: top?.id ?? "", at: top?.getBoundingClientRect().top ?? 0,
    open: [...view.querySelectorAll("details[open]")].map(nameOf),
    focus: focus && focus !== view && view.contains(focus) ? (focus.matches(".card") ? focus.id : nameOf(focus)) : "",
    here: view.querySelector(".here")?.id ?? "",
    boxes: [...view.querySelectorAll(".text, .strips, .scroll")].filter((box) => box.scrollTop || box.scrollLeft).map((box) => [nameOf(box), box.scrollTop, box.scrollLeft]),
  };
}

/** @param {HTMLElement} view @param {Reading} was */
function resume(view, was) {
  for (const name of was.open) { const box = named(view, name); if (box instanceof HTMLDetailsElement) box.open = true; }
  for (const [name, top, left] of was.boxes) named(view, name)?.scrollTo(left, top);
  if (was.here) document.getElementById(was.here)?.classList.add("here");
  if (was.focus) named(view, was.focus)?.focus({ preventScroll: true });
  const anchor = document.getElementById(was.anchor);
  scrollTo(0, anchor ? scrollY + anchor.getBoundingClientRect().top - was.at : was.top);
}

/** Return whether the page of the address shows something of the parts that changed. @param {string[]} changed */
function shows(changed) {
  const { words: [page = "", number] } = route(), prefix = current().prefix;
  if (!["turn", "group", "graph", "panel"].includes(page)) return page !== "search";
  return changed.includes(`${prefix}iteration/${number}`);
}

/** Return whether the reader is choosing or marking something, which drawing anew would undo. */
function busy() {
  const marked = getSelection();
  return Boolean(document.activeElement?.closest("#view input, #view select")) || Boolean(marked && !marked.isCollapsed && marked.anchorNode && find("view").contains(marked.anchorNode));
}

let stale = false;

/** Ask the live server again and again; draw again where something is new, unless the reader is in the middle of it. */
async function follow() {
  const label = find("live"), first = feed.revision === 0;
  try {
    const changed = await feed.ask();
    stale = first || shows(changed) || stale;
    if (stale && !busy()) {
      stale = false;
      await rerender(!first);
    }
    label.textContent = current().events("done").length || current().run.finished ? "finished" : "live";
    label.className = "";
  } catch {
    label.textContent = "the server is gone";
    label.className = "gone";
  }
  setTimeout(follow, ASK_EVERY);
}

void rerender(false);
if (feed.live) void follow();
