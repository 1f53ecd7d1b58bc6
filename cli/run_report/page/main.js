// The frame of the page: routes, keys, light and dark, and the live server's news.

/** @type {[string, string][]} */
const PAGES = [["", "Overview"], ["groups", "Groups"], ["failures", "Failures"], ["compare", "Compare"]];
const KEYS = [["j, k", "next and previous turn, or row"], ["h, l", "previous and next episode or group"], ["u", "up"],
  ["/", "search"], ["1 – 4", "pages"], ["t", "light or dark"], ["?", "this list"]];
const ASK_EVERY = 2000; // milliseconds between questions to the live server

const store = new Store(JSON.parse(/** @type {string} */ (document.getElementById("data")?.textContent)));
const find = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
let drawn = 0;

/** Return the parts of the address after "#", and the word that was searched for. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { words: path.split("/").filter(Boolean), word: new URLSearchParams(query).get("q") ?? "" };
}

/** Draw the page of the address; `keep` leaves the reader where he is. @param {boolean} [keep] */
async function rerender(keep = true) {
  const mine = ++drawn, { words, word } = route(), [page = "", ...numbers] = words, [a, b, c, d] = numbers.map(Number);
  frame(page, word);
  let content;
  try {
    if (page === "") content = overview(store);
    else if (page === "groups") content = groupsPage(store);
    else if (page === "group") content = await groupPage(store, a, b);
    else if (page === "graph") content = await graphPage(store, a, b);
    else if (page === "turn") content = await trajectoryPage(store, a, b, c, d || 0, word);
    else if (page === "failures") content = failuresPage(store);
    else if (page === "compare") content = comparePage(store);
    else if (page === "search") content = searchPage(store, word);
    else content = missing("This report has no such page.");
  } catch (error) {
    content = missing(`This part of the report cannot be shown: ${error}`);
  }
  if (mine !== drawn) return;
  const view = find("view"), top = scrollY;
  view.className = `page-${page || "overview"}`;
  view.replaceChildren();
  fill(view, {}, content.flat());
  view.dataset.ready = location.hash;
  if (keep) scrollTo(0, top);
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

/** @param {string} page @param {string} word */
function frame(page, word) {
  const under = ["group", "turn", "graph"].includes(page) ? "groups" : page;
  const old = /** @type {HTMLInputElement | null} */ (document.getElementById("word"));
  document.title = `${line(store.run.name, 60)} · report`;
  if (old) {
    if (document.activeElement !== old) old.value = word;
    document.querySelectorAll("#top nav a").forEach((link) => link.toggleAttribute("aria-current", link.getAttribute("href") === `#/${under}`));
    return;
  }
  find("top").replaceChildren(
    h("b", { class: "mark" }, "turnwise"),
    h("nav", {}, PAGES.map(([key, title]) => h("a", { href: `#/${key}`, "aria-current": key === under }, title))),
    h("input", { id: "word", type: "search", "aria-label": "search all turns", placeholder: "Search all turns  /", value: word,
      onkeydown: (/** @type {any} */ e) => { if (e.key === "Enter") location.hash = `#/search?q=${encodeURIComponent(e.target.value)}`; if (e.key === "Escape") e.target.blur(); } }),
    h("span", { id: "live", role: "status", hidden: !store.live }, "live"),
    h("button", { onclick: theme, title: "light or dark (t)", "aria-label": "light or dark" }, "◐"),
    h("button", { onclick: help, title: "keys (?)", "aria-label": "keys" }, "?"));
  find("foot").replaceChildren(h("p", {}, "Advantages are computed from the stored episodes, iteration by iteration, when the report is written: a rule with memory begins anew in each, and a KL term in the reward is not in them. Images are not stored with episodes."));
  find("help").replaceChildren(h("h2", {}, "Keys"), h("dl", {}, KEYS.map(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)]).flat()),
    h("button", { onclick: () => /** @type {any} */ (find("help")).close() }, "close"));
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
  const focus = /** @type {HTMLElement | null} */ (cards.length ? next : next.querySelector("a"));
  focus?.focus({ preventScroll: true });
  if (cards.length) {
    const path = route().words.slice(0, 4).join("/");
    history.replaceState(null, "", `#/${path}/${/** @type {HTMLElement} */ (next).dataset.turn}`);
  }
}

addEventListener("keydown", (event) => {
  const inField = /** @type {HTMLElement} */ (event.target).closest("input, select, textarea, dialog[open]");
  if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
  const link = (/** @type {string} */ rel) => /** @type {HTMLElement | null} */ (document.querySelector(`#view a[rel=${rel}]`))?.click();
  /** @type {Record<string, () => void>} */
  const keys = { j: () => move(1), k: () => move(-1), h: () => link("prev"), l: () => link("next"), u: () => link("up"), t: theme, "?": help, "/": () => find("word").focus() };
  PAGES.forEach(([page], place) => { keys[String(place + 1)] = () => { location.hash = `#/${page}`; }; });
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

addEventListener("hashchange", () => {
  const { words } = route(), shown = (find("view").dataset.ready ?? "").replace(/^#\/?/, "").split("?")[0].split("/");
  const same = words[0] === "turn" && words.slice(0, 4).join("/") === shown.slice(0, 4).join("/");
  if (same && document.getElementById(`turn-${words[4] ?? 0}`)) return reveal(Number(words[4] ?? 0));
  void rerender(false);
});

/** Ask the live server again and again; draw again where something is new, unless the reader is in the middle of it. */
async function follow() {
  const label = find("live");
  try {
    if (await store.ask()) {
      const page = route().words[0] ?? "";
      const busy = document.activeElement?.closest("#view input, #view select");
      if (!busy && (!["turn", "group", "graph", "search"].includes(page))) await rerender();
    }
    label.textContent = store.events("done").length ? "finished" : "live";
    label.className = "";
  } catch {
    label.textContent = "the server is gone";
    label.className = "gone";
  }
  setTimeout(follow, ASK_EVERY);
}

void rerender(false);
if (store.live) void follow();
