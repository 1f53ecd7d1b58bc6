// The panel beside the phone: task, verdict, steps, the expert, another task, adb.

import { button, field, find, make, post, put, tell } from "./page.js";

/** @typedef {import("./page.js").State} State */
/** @typedef {{ name: string, apps: string[], steps: number }} Template */

const PAUSE = 800; // milliseconds between two steps of the expert

/** @type {State | null} */
let state = null;

/** Draw a state. @param {State} next */
export function drawPanel(next) {
  state = next;
  const { task, steps, verdict } = next;
  put("kind", task ? `${task.template} · seed ${task.number} · ${task.split}` : `No task · seed ${next.seed}`);
  put("goal", task ? task.goal : "A phone to look around in");
  put("count", task ? `${steps.length} of ${task.limit} steps` : `${steps.length} ${steps.length === 1 ? "step" : "steps"}`);
  const bar = find("progress"), share = task ? Math.min(1, steps.length / task.limit) : 0;
  bar.hidden = !task;
  bar.setAttribute("aria-valuemax", String(task?.limit ?? 0));
  bar.setAttribute("aria-valuenow", String(steps.length));
  /** @type {HTMLElement} */ (bar.firstElementChild).style.width = `${100 * share}%`;
  const running = task !== null && verdict === null;
  for (const id of ["step", "play"]) button(id).hidden = !task;
  for (const id of ["done", "step", "play"]) button(id).disabled = !running;
  find("answer-form").hidden = find("ends").hidden = !running;
  field("answer").placeholder = next.answer ? `Answered: ${next.answer}` : "Answer a question";
  if (!running) stopExpert();
  drawVerdict(next);
  drawSteps(next);
  put("command", `adb connect ${next.adb.serial}`);
  put("clients", next.adb.clients ? "connected" : "");
}

/** @param {State} next */
function drawVerdict({ verdict, unsavable, saved }) {
  const card = find("verdict");
  if (verdict) {
    card.className = verdict.won ? "card won" : "card";
    put("badge", verdict.won ? "✓" : "✕");
    put("outcome", verdict.won ? "Success" : "Not solved");
    put("because", verdict.won ? "All that the task asks for is done, and nothing else has changed." : "The phone at the end is not what the task asks for:");
    find("reasons").replaceChildren(...verdict.reasons.map((reason) => make("li", {}, reason)));
    button("save").disabled = unsavable !== "";
    put("saved", saved ? `Saved as ${saved}` : unsavable ? `Cannot be saved: ${unsavable}.` : "");
  }
  card.hidden = verdict === null;
}

/** @param {State} next */
function drawSteps({ steps }) {
  const list = find("steps");
  find("no-steps").hidden = steps.length > 0;
  const rows = steps.map(({ words, who }) => make("li", {}, make("span", {}, words), ...(who === "you" ? [] : [make("small", { class: who }, who)])));
  const same = list.childElementCount === rows.length && list.lastElementChild?.textContent === rows.at(-1)?.textContent;
  list.replaceChildren(...rows);
  if (!same) list.scrollTop = list.scrollHeight;
}

// The expert

let playing = 0;

/** Let the expert play, or pause. */
export function toggleExpert() {
  if (playing) return stopExpert();
  if (button("play").disabled) return;
  playing = 1;
  drawExpert();
  void expertPlays();
}

function stopExpert() {
  if (!playing) return;
  clearTimeout(playing);
  playing = 0;
  drawExpert();
}

async function expertPlays() {
  if (!playing) return;
  const taken = await post("/expert");
  if (!playing) return;
  if (taken === undefined) return stopExpert();
  playing = setTimeout(expertPlays, PAUSE);
}

function drawExpert() {
  put("play-word", playing ? "Pause" : "Expert");
  /** @type {HTMLElement} */ (button("play").querySelector(".sign")).textContent = playing ? "❚❚" : "▶";
  button("play").setAttribute("aria-pressed", String(playing !== 0));
}

/** Let the expert take one step. */
export function expertStep() {
  if (button("step").disabled) return;
  stopExpert();
  void post("/expert");
}

button("play").addEventListener("click", toggleExpert);
button("step").addEventListener("click", expertStep);

// What a person says

/** Say that the task is done. */
export function done() {
  if (!button("done").disabled) void post("/say", { text: "done" });
}

button("done").addEventListener("click", done);
button("infeasible").addEventListener("click", () => void post("/say", { text: "infeasible" }));
find("answer-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = field("answer").value;
  if ((await post("/say", { text: `answer ${text}` })) !== undefined) field("answer").value = "";
});

// Another task

/** @type {Record<string, Template[]>} */
let templates = {};

/** Fill the choices of another task. */
export async function loadTemplates() {
  try {
    templates = await (await fetch("/tasks")).json();
  } catch {
    return tell("The list of templates cannot be read.");
  }
  field("split").replaceChildren(...Object.keys(templates).map((name) => make("option", {}, name)));
  if (state?.task) field("split").value = state.task.split;
  drawChoices();
}

function drawChoices() {
  const known = templates[field("split").value] ?? [], app = field("app").value, template = field("template").value;
  const apps = [...new Set(known.flatMap((one) => one.apps))].sort();
  fillChoice("app", apps, app);
  const fitting = known.filter((one) => !field("app").value || one.apps.includes(field("app").value));
  fillChoice("template", fitting.map((one) => one.name), template);
}

/** @param {string} id @param {string[]} names @param {string} chosen */
function fillChoice(id, names, chosen) {
  field(id).replaceChildren(make("option", { value: "" }, "any"), ...names.map((name) => make("option", { value: name }, name)));
  field(id).value = names.includes(chosen) ? chosen : "";
}

for (const id of ["split", "app"]) field(id).addEventListener("change", drawChoices);

/** Return the seed that was typed: null for none. */
function seed() {
  const text = field("seed").value.trim();
  if (text === "") return null;
  return /^\d{1,15}$/.test(text) ? Number(text) : text;
}

/** Return a random one of the templates that fit the choices. */
function fitting() {
  const given = field("template").value, app = field("app").value;
  return given || !app ? { template: given } : { template: "", apps: [app] };
}

/** Start what was chosen. */
async function start() {
  await post("/start", { split: field("split").value || "train", seed: seed(), ...fitting() });
}

/** Start a random task of the same kind of tasks. */
export function nextTask() {
  void post("/start", { split: field("split").value || state?.task?.split || "train", seed: null, ...fitting() });
}

find("new").addEventListener("submit", (event) => {
  event.preventDefault();
  void start();
});
button("free").addEventListener("click", () => void post("/start", { free: true, seed: seed() ?? 0 }));
button("next").addEventListener("click", nextTask);
button("again").addEventListener("click", () => void post("/again"));

// Saving

/** Save the episode; without a file of the server it is downloaded. */
export async function save() {
  if (find("verdict").hidden || button("save").disabled) return;
  const saved = await post("/save");
  if (!saved?.text) return;
  const link = /** @type {HTMLAnchorElement} */ (make("a", { download: saved.name }));
  link.href = URL.createObjectURL(new Blob([saved.text], { type: "application/jsonl" }));
  link.click();
  URL.revokeObjectURL(link.href);
}

button("save").addEventListener("click", () => void save());
button("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(find("command").textContent ?? "");
    tell("Copied.");
  } catch {
    tell("The browser does not allow to copy.");
  }
});
