// Keyboard shortcuts, and options that take effect when they are selected. Every page works without this file.
"use strict";

const FOCUS = "shop.focus";
const cards = [...document.querySelectorAll(".product-link")];
const radios = [...document.querySelectorAll('input[type="radio"]')];

function press(selector) {
  const button = document.querySelector(selector);
  if (button) button.click();
  return Boolean(button);
}

function search() {
  const field = document.getElementById("search_input");
  if (!field) return press(".back .btn");
  field.focus();
  field.select();
  return true;
}

function place(index) {
  const card = cards[index];
  if (!card) return false;
  if (document.activeElement === card) return false;
  card.focus();
  card.closest(".card").scrollIntoView({ block: "nearest" });
  return true;
}

function columns() {
  const tops = cards.map((card) => card.closest(".card").offsetTop);
  return tops.filter((top) => top === tops[0]).length;
}

function move(step) {
  const now = cards.indexOf(document.activeElement);
  if (!cards.length) return false;
  if (now < 0) return place(0);
  return place(Math.min(cards.length - 1, Math.max(0, now + step)));
}

function value(step) {
  const next = radios[radios.indexOf(document.activeElement) + step];
  if (next) next.focus();
  return Boolean(next);
}

function number(key) {
  const index = (Number(key) + 9) % 10;
  if (cards[index] && document.activeElement === cards[index]) {
    cards[index].click();
    return true;
  }
  return place(index);
}

const sub = (name) => () => [...document.querySelectorAll(".more .btn")].some((button) => {
  const found = button.textContent === name;
  if (found) button.click();
  return found;
});

const KEYS = {
  "/": search,
  n: () => press(".next .btn"),
  p: () => press(".prev .btn"),
  d: sub("Description"),
  f: sub("Features"),
  r: sub("Reviews"),
  ArrowRight: () => move(1),
  ArrowLeft: () => move(-1),
  ArrowDown: () => move(columns()),
  ArrowUp: () => move(-columns()),
};

const RADIO_KEYS = {
  ArrowRight: () => value(1),
  ArrowDown: () => value(1),
  ArrowLeft: () => value(-1),
  ArrowUp: () => value(-1),
  Enter: () => document.activeElement.click() || true,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const field = event.target.closest && event.target.closest("input, textarea, select");
  if (field && field.type !== "radio") return;
  const keys = field ? { ...KEYS, ...RADIO_KEYS } : KEYS;
  const done = /^[0-9]$/.test(event.key) ? cards.length > 0 && number(event.key) : keys[event.key] && keys[event.key]();
  if (done) event.preventDefault();
});

// Without a name each value is a Tab stop of its own, and arrow keys move the focus without selecting anything.
for (const radio of radios) {
  radio.removeAttribute("name");
  radio.addEventListener("change", () => {
    try {
      sessionStorage.setItem(FOCUS, radio.id + " " + window.scrollY);
    } catch { /* storage may be forbidden; then only the focus is lost */ }
    window.location.assign(radio.dataset.url);
  });
}

try {
  const [id, height] = (sessionStorage.getItem(FOCUS) || "").split(" ");
  sessionStorage.removeItem(FOCUS);
  const radio = id && document.getElementById(id);
  if (radio && radio.checked) {
    radio.focus({ preventScroll: true });
    window.scrollTo(0, Number(height));
  }
} catch { /* as above */ }
