// Keys, and options that take effect when they are chosen. Every page works without this file.
"use strict";

const FOCUS = "shop.focus";
const cards = [...document.querySelectorAll(".product-link")];

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

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const typing = event.target.closest && event.target.closest("input, textarea, select");
  if (typing && !(typing.type === "radio" && event.key.length === 1)) return;
  const done = /^[0-9]$/.test(event.key) ? cards.length > 0 && number(event.key) : KEYS[event.key] && KEYS[event.key]();
  if (done) event.preventDefault();
});

for (const radio of document.querySelectorAll('input[type="radio"]')) {
  radio.addEventListener("change", () => {
    try {
      sessionStorage.setItem(FOCUS, radio.id + " " + window.scrollY);
    } catch { /* storage may be forbidden; the focus is lost then, nothing else */ }
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
