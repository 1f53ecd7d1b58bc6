// The page: news of the server, keys, light and dark.

import { button, find, onState, put } from "./page.js";
import { done, drawPanel, expertStep, loadTemplates, nextTask, save, toggleExpert } from "./panel.js";
import { drawPhone, focusPhone, toggleBoxes } from "./phone.js";

/** @typedef {import("./page.js").State} State */

let version = -1;

/** Draw a state, unless a newer one has been drawn. @param {State} state */
function draw(state) {
  if (state.version < version) return;
  version = state.version;
  drawPhone(state);
  drawPanel(state);
  document.documentElement.dataset.version = String(version);
}

onState(draw);

/** Listen to the server; the browser connects again by itself, and then gets the present state. */
function listen() {
  const news = new EventSource("/events");
  news.addEventListener("open", () => {
    version = -1; // a server that was started again counts from the beginning
    show(true);
  });
  news.addEventListener("message", (event) => draw(JSON.parse(event.data)));
  news.addEventListener("error", () => {
    show(false);
    if (news.readyState !== EventSource.CLOSED) return;
    setTimeout(listen, 1000);
  });
}

/** @param {boolean} on */
function show(on) {
  find("live").className = on ? "on" : "";
  put("live", on ? "live" : "not connected");
}

// Keys beside the phone

const dialog = /** @type {HTMLDialogElement} */ (find("keys"));

/** @type {Record<string, () => void>} */
const KEYS = {
  "?": () => dialog.showModal(),
  f: focusPhone,
  b: toggleBoxes,
  e: toggleExpert,
  ".": expertStep,
  d: done,
  n: nextTask,
  s: () => void save(),
  t: turn,
};

document.addEventListener("keydown", (event) => {
  if (event.key === "F1") {
    event.preventDefault();
    if (!dialog.open) dialog.showModal();
    return;
  }
  const target = /** @type {HTMLElement} */ (event.target);
  if (dialog.open || target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

button("help").addEventListener("click", () => dialog.showModal());

/** Change between light and dark. */
function turn() {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme ?? (dark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
}

button("theme").addEventListener("click", turn);

listen();
void loadTemplates();
