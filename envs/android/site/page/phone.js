// The phone: its picture, what a finger, a wheel and a keyboard do to it, and the boxes around its elements.

import { button, find, make, post } from "./page.js";

/** @typedef {import("./page.js").State} State */
/** @typedef {{ kind: string, x?: number, y?: number, x2?: number, y2?: number, text?: string, milliseconds?: number }} Input */

const HOLD = 500; // milliseconds of a long press
const STILL = 9; // pixels of the page that a finger may move in a tap
const KEYS = { Backspace: "Backspace", Delete: "Delete", Enter: "Enter", ArrowLeft: "ArrowLeft", ArrowRight: "ArrowRight", Escape: "Back", Home: "Home" };
const FAR = { ArrowDown: -0.25, ArrowUp: 0.25, PageDown: -0.5, PageUp: 0.5 }; // of the screen's height that the finger goes

const screen = find("screen"), picture = /** @type {HTMLImageElement} */ (find("picture"));
const typing = /** @type {HTMLTextAreaElement} */ (find("typing")), finger = find("finger");

/** @type {State | null} */
let state = null;
let loading = "", shown = "", flashed = 0;

/** Draw a state. @param {State} next */
export function drawPhone(next) {
  state = next;
  find("phone").style.setProperty("--ratio", String(next.size[0] / next.size[1]));
  void load();
  drawBoxes();
  const touch = next.touch;
  if (touch.number && touch.number !== flashed) {
    if (flashed && touch.who === "expert" && (touch.x || touch.y)) flash(touch.x ?? 0, touch.y ?? 0);
    flashed = touch.number;
  }
  flashed ||= -1;
}

/** Fetch the picture when the screen has changed; while one is on its way, the newest waits. */
async function load() {
  const wide = Math.min(1080, Math.max(270, Math.round(screen.clientWidth * devicePixelRatio)));
  if (!state || loading || shown === `${state.screen} ${wide}`) return;
  loading = `${state.screen} ${wide}`;
  const next = new Image(), of = state.screen;
  next.src = `/screen.png?width=${wide}&of=${of}`;
  try {
    await next.decode();
    picture.src = next.src;
    picture.dataset.shows = of;
    shown = loading;
    loading = "";
    void load();
  } catch {
    loading = "";
    setTimeout(load, 1000); // the server is busy or away
  }
}

// Corners as round as the phone is wide, so that they never cover the clock; and a picture that fits.
new ResizeObserver(() => {
  find("phone").style.setProperty("--radius", `${Math.round(0.115 * Math.min(screen.clientWidth, screen.clientHeight))}px`);
  void load();
}).observe(screen);

// What is sent: one after the other, and what waits is joined.

/** @type {Input[]} */
const waiting = [];
let sending = false;

/** Send an input. @param {Input} input */
export async function send(input) {
  const last = waiting.at(-1);
  if (last && last.kind === "text" && input.kind === "text") last.text = `${last.text}${input.text}`;
  else if (last && last.kind === "scroll" && input.kind === "scroll") last.y2 = (last.y2 ?? 0) + (input.y2 ?? 0) - (input.y ?? 0);
  else waiting.push(input);
  if (sending) return;
  sending = true;
  for (let next = waiting.shift(); next; next = waiting.shift()) await post("/input", next);
  sending = false;
}

// Fingers

/** @type {{ id: number, x: number, y: number, at: number, held: number, done: boolean } | null} */
let down = null;

/** Return where an event is, in pixels of the phone. @param {{ clientX: number, clientY: number }} event @returns {[number, number]} */
function point(event) {
  const box = screen.getBoundingClientRect(), [width, height] = state?.size ?? [1, 1];
  return [Math.round(((event.clientX - box.left) / box.width) * width), Math.round(((event.clientY - box.top) / box.height) * height)];
}

/** Show the finger at a pixel of the phone. @param {number} x @param {number} y @param {string} kind */
function place(x, y, kind) {
  const [width, height] = state?.size ?? [1, 1];
  finger.className = kind;
  finger.hidden = false;
  finger.style.left = `${(100 * x) / width}%`;
  finger.style.top = `${(100 * y) / height}%`;
}

/** Show for a moment where the expert touches. @param {number} x @param {number} y */
function flash(x, y) {
  finger.hidden = true;
  void finger.offsetWidth; // the animation starts again
  place(x, y, "expert flash");
  setTimeout(() => down || (finger.hidden = true), 600);
}

screen.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || down || !state) return;
  event.preventDefault(); // the focus stays where typing is heard
  focusPhone();
  const [x, y] = point(event);
  try {
    screen.setPointerCapture(event.pointerId);
  } catch {
    // the finger is gone already
  }
  const held = setTimeout(() => {
    if (!down) return;
    down.done = true;
    finger.hidden = true;
    void send({ kind: "long_press", x, y });
  }, HOLD);
  down = { id: event.pointerId, x: event.clientX, y: event.clientY, at: performance.now(), held, done: false };
  place(x, y, "");
});

screen.addEventListener("pointermove", (event) => {
  if (!down || event.pointerId !== down.id || down.done) return;
  if (moved(event)) clearTimeout(down.held);
  place(...point(event), "");
});

screen.addEventListener("pointerup", (event) => {
  if (!down || event.pointerId !== down.id) return;
  const { at, done, held } = down, [x, y] = point({ clientX: down.x, clientY: down.y }), [x2, y2] = point(event);
  const drawn = moved(event);
  clearTimeout(held);
  down = null;
  finger.hidden = true;
  if (done) return;
  if (!drawn) return void send({ kind: "tap", x, y });
  void send({ kind: "swipe", x, y, x2, y2, milliseconds: Math.min(5000, Math.round(performance.now() - at)) });
});

screen.addEventListener("pointercancel", () => {
  if (down) clearTimeout(down.held);
  down = null;
  finger.hidden = true;
});

/** @param {{ clientX: number, clientY: number }} event */
function moved(event) {
  return down !== null && Math.hypot(event.clientX - down.x, event.clientY - down.y) > STILL;
}

screen.addEventListener("contextmenu", (event) => {
  event.preventDefault();
  const [x, y] = point(event);
  if (event.button === 2 && !down) void send({ kind: "long_press", x, y });
});

let turned = 0;

screen.addEventListener(
  "wheel",
  (event) => {
    if (event.ctrlKey || !state) return; // the browser's zoom
    event.preventDefault();
    const scale = state.size[1] / screen.clientHeight, unit = event.deltaMode === 1 ? 24 : event.deltaMode === 2 ? 400 : 1;
    turned += event.deltaY * unit * scale;
    if (Math.abs(turned) < 48) return;
    const [x, y] = point(event), by = Math.round(turned);
    turned = 0;
    void send({ kind: "scroll", x, y, x2: x, y2: y - by });
  },
  { passive: false },
);

// Keyboard

/** Let typing go to the phone. */
export function focusPhone() {
  typing.focus({ preventScroll: true });
}

// Keys that write nothing; letters come as `input`, which also knows dead keys, emoji and pasted text.
typing.addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  const command = event.ctrlKey || event.metaKey;
  if (command && event.key.toLowerCase() === "a") void send({ kind: "key", text: "SelectAll" });
  else if (command || event.altKey) return;
  else if (event.key in KEYS) void send({ kind: "key", text: KEYS[/** @type {keyof typeof KEYS} */ (event.key)] });
  else if (event.key in FAR) scroll(FAR[/** @type {keyof typeof FAR} */ (event.key)]);
  else return;
  event.preventDefault();
  event.stopPropagation();
});

/** Send what was written. */
function flush() {
  const text = typing.value;
  typing.value = "";
  if (text) void send({ kind: "text", text });
}

typing.addEventListener("input", (event) => {
  if (!(/** @type {InputEvent} */ (event).isComposing)) flush();
});
typing.addEventListener("compositionend", flush);

/** Scroll by a part of the screen's height. @param {number} part */
function scroll(part) {
  const [width, height] = state?.size ?? [1, 1], x = width >> 1, y = height >> 1;
  void send({ kind: "scroll", x, y, x2: x, y2: y + Math.round(part * height) });
}

for (const one of document.querySelectorAll("[data-key]"))
  one.addEventListener("click", () => void send({ kind: "key", text: /** @type {HTMLElement} */ (one).dataset.key }));

// Boxes

const boxes = find("boxes");

/** Show or hide the boxes around elements. */
export function toggleBoxes() {
  const on = button("show-boxes").getAttribute("aria-pressed") !== "true";
  button("show-boxes").setAttribute("aria-pressed", String(on));
  boxes.hidden = !on;
  drawBoxes();
}

function drawBoxes() {
  const focused = document.activeElement?.parentElement === boxes ? document.activeElement.getAttribute("data-index") : null;
  if (boxes.hidden || !state) return;
  const [width, height] = state.size;
  boxes.replaceChildren(
    ...state.elements.map((element) => {
      const [left, top, right, bottom] = element.bounds, x = (left + right) >> 1, y = (top + bottom) >> 1;
      const box = make("button", { type: "button", class: element.kind, "data-index": String(element.index), "aria-label": `${element.label || "no name"}, ${element.kind}, ${element.index}` }, make("span", {}, String(element.index)));
      box.style.left = `${(100 * left) / width}%`;
      box.style.top = `${(100 * top) / height}%`;
      box.style.width = `${(100 * (right - left)) / width}%`;
      box.style.height = `${(100 * (bottom - top)) / height}%`;
      box.addEventListener("click", () => {
        void send({ kind: "tap", x, y });
        if (element.kind === "field") focusPhone();
      });
      box.addEventListener("keydown", (event) => {
        if (event.key === "Escape") void send({ kind: "key", text: "Back" });
        else if (event.key === "Enter" && event.shiftKey) void send({ kind: "long_press", x, y });
        else return;
        event.preventDefault();
      });
      return box;
    }),
  );
  if (focused !== null) {
    const same = /** @type {HTMLElement | null} */ (boxes.querySelector(`[data-index="${focused}"]`));
    (same ?? typing).focus();
  }
}

button("show-boxes").addEventListener("click", toggleBoxes);
