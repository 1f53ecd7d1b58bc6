// Elements of the page, and requests to the server.

/** @typedef {{ index: number, label: string, kind: string, bounds: [number, number, number, number] }} ScreenElement */
/** @typedef {{ number: number, kind: string, who: string, x: number, y: number, x2: number, y2: number }} Touch */
/** @typedef {{ id: string, goal: string, template: string, number: number, split: string, apps: string[], limit: number }} Task */
/** @typedef {{ won: boolean, score: number, reasons: string[] }} Verdict */
/**
 * @typedef {object} State what the server says of the phone
 * @property {number} version
 * @property {string} screen key of what the screen shows
 * @property {[number, number]} size
 * @property {boolean} on
 * @property {Task | null} task
 * @property {string} seed
 * @property {{ words: string, who: string }[]} steps
 * @property {string} answer
 * @property {Verdict | null} verdict
 * @property {string} unsavable why the episode cannot be saved, "" if it can
 * @property {string} saved
 * @property {ScreenElement[]} elements
 * @property {Partial<Touch>} touch
 * @property {{ serial: string, clients: number }} adb
 */

/** Return the element with an id. @param {string} id */
export function find(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** Return the button with an id. @param {string} id */
export function button(id) {
  return /** @type {HTMLButtonElement} */ (find(id));
}

/** Return the field or choice with an id. @param {string} id */
export function field(id) {
  return /** @type {HTMLInputElement} */ (find(id));
}

/**
 * Return a new element; strings become text and never markup.
 * @param {string} tag
 * @param {Record<string, string>} attributes
 * @param {...(Node | string)} children
 */
export function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Show a text of a place, and leave the place alone if it has it already. @param {string} id @param {string} text */
export function put(id, text) {
  if (find(id).textContent !== text) find(id).textContent = text;
}

let hiding = 0;

/** Show a sentence for a while. @param {string} sentence */
export function tell(sentence) {
  const toast = find("toast");
  toast.textContent = sentence;
  toast.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => (toast.hidden = true), 6000);
}

/** @type {(state: State) => void} */
let taken = () => {};

/** Say who draws a state. @param {(state: State) => void} draw */
export function onState(draw) {
  taken = draw;
}

/**
 * Send a request that changes something, and draw what follows; a refusal is shown as a sentence.
 * @param {string} path
 * @param {object} [fields]
 * @returns {Promise<any>} the result, or undefined if it was refused
 */
export async function post(path, fields = {}) {
  let reply;
  try {
    const headers = { "Content-Type": "application/json" };
    reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(fields) });
    const answer = await reply.json();
    if (!reply.ok) return void tell(`${answer.detail.charAt(0).toUpperCase()}${answer.detail.slice(1)}.`);
    taken(answer.state);
    return answer.result ?? true;
  } catch {
    tell(reply ? "The server's answer cannot be read." : "The phone does not answer. Is turncredit still running?");
  }
}
