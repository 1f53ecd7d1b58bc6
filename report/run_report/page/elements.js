// Elements of the page. Texts of a run become text nodes here and nowhere become markup.

/** @typedef {Node | string | number | null | undefined | false} OneChild */
/** @typedef {OneChild | readonly OneChild[] | readonly (readonly OneChild[])[] | readonly (OneChild | readonly OneChild[])[]} Child */

const SVG = "http://www.w3.org/2000/svg";
/** The run of the address, as the beginning of its pages' addresses: "" or "run/3/". */
const scope = {
  get path() {
    const run = /^#\/*run\/+([^/?]+)/.exec(location.hash)?.[1];
    return run ? `run/${run}/` : "";
  },
};
const LONG = 4000; // characters of a text that are shown at first

/**
 * Return an element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `on...` are listeners, `style` is a table of properties; false leaves out
 * @param {...(Child | Child[])} children strings become text
 * @returns {HTMLElement}
 */
function h(tag, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (fill(document.createElement(tag), attributes, children));
}

/**
 * Return an SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
function svg(tag, attributes = {}, ...children) {
  return /** @type {SVGElement} */ (fill(document.createElementNS(SVG, tag), attributes, children));
}

/** @param {Element} element @param {Record<string, any>} attributes @param {(Child | Child[])[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) styleOf(element).setProperty(key, one);
    else if (name === "href") element.setAttribute(name, address(String(value)));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of /** @type {OneChild[]} */ (children.flat(/** @type {3} */ (Infinity)))) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** Return the address of a page of the run that is shown, or, with "#//", of the whole report. @param {string} href */
function address(href) {
  if (!href.startsWith("#/")) throw new Error("links stay inside the report");
  return href.startsWith("#//") ? `#/${href.slice(3)}` : `#/${scope.path}${href.slice(2)}`;
}

/** @param {Element} element */
function styleOf(element) {
  return /** @type {HTMLElement | SVGElement} */ (element).style;
}

/** Show other children in an element. @param {Element} element @param {...(Child | Child[])} children */
function put(element, ...children) {
  element.replaceChildren();
  return fill(element, {}, children);
}

/**
 * Return a text in which characters that cannot be seen, or that change the order of others, can be seen.
 * @param {string} text
 */
function visible(text) {
  return text
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g, codeName)
    .replace(/[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]/g, (c) => (c.length === 2 ? tagged(c) : "\ufffd"));
}

/** @param {string} c */
function codeName(c) {
  return `[U+${(c.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`;
}

/** Return a pair of surrogates, or the name of a tag character, which nobody would see. @param {string} c */
function tagged(c) {
  const code = c.codePointAt(0) ?? 0;
  return code >= 0xe0000 && code <= 0xe0fff ? codeName(c) : c;
}

/**
 * Return a text of the run as a block; a long one is cut until somebody asks for all of it.
 * @param {string} text
 * @param {string} [kind] class of the block
 * @param {string} [mark] a text to mark in it
 */
function block(text, kind = "", mark = "") {
  const box = h("pre", { class: `text ${kind}`, dir: "ltr" });
  const show = (/** @type {boolean} */ all) => {
    const seen = visible(all ? text : text.slice(0, LONG));
    box.replaceChildren(...(mark ? marked(seen, mark) : [seen || "(nothing)"]));
    if (!seen) box.classList.add("empty");
    if (!all && text.length > LONG)
      box.append(
        h("button", { class: "more", onclick: () => show(true) }, `… show all ${count(text.length)} characters`),
      );
  };
  show(false);
  return box;
}

/**
 * Return a text as nodes with every occurrence of a word marked.
 * @param {string} text @param {string} word
 * @returns {(Node | string)[]}
 */
function marked(text, word) {
  const found = [], low = text.toLowerCase(), wanted = word.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(wanted); at >= 0 && found.length < 400; at = low.indexOf(wanted, from)) {
    found.push(text.slice(from, at), h("mark", {}, text.slice(at, at + wanted.length)));
    from = at + wanted.length;
  }
  return [...found, text.slice(from)];
}

/** Return a text on one line. @param {string} text @param {number} [longest] */
function line(text, longest = 120) {
  const words = visible(text.slice(0, 4 * longest).replace(/\s+/g, " ").trim());
  return words.length > longest ? `${words.slice(0, longest - 1)}…` : words;
}

/**
 * Return a labelled choice.
 * @param {string} label @param {[string, string][]} options value and text @param {string} value
 * @param {(value: string) => void} change
 */
function choice(label, options, value, change) {
  const box = h("select", { "aria-label": label, onchange: (/** @type {any} */ e) => change(e.target.value) });
  for (const [key, text] of options) box.append(h("option", { value: key, selected: key === value }, line(text, 60)));
  return h("label", { class: "choice" }, h("span", {}, label), box);
}

/** Return a table. @param {Child[]} heads @param {(Child | Child[])[][]} rows @param {number} [texts] leading columns */
function table(heads, rows, texts = 1) {
  const kind = (/** @type {number} */ place) => ({ class: place < texts ? "" : "n" });
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, heads.map((head, place) => h("th", kind(place), head)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, place) => h("td", { ...kind(place), ...(typeof heads[place] === "string" ? { "data-head": heads[place] } : {}) }, cell))))),
    ),
  );
}

/** Return a table whose rows are cards on a narrow screen, so that no column is cut. @param {HTMLElement} shown */
function stacked(shown) {
  shown.classList.add("stacked");
  return shown;
}

/** Return a text whose words in backticks are code. @param {string} text */
function coded(text) {
  return text.split("`").map((words, place) => (place % 2 ? h("code", {}, visible(words)) : visible(words)));
}

/**
 * Return the heads of the columns of a table.
 * @param {string} name of the table @param {string[]} keys of its columns @param {Record<string, string>} [words] what
 *   stands for names in braces
 */
function heads(name, keys, words = {}) {
  return keys.map((key) => inWords(feed.columns[name][key][0], words));
}

/**
 * Return what the columns of a table mean, and which direction is good, as in the terminal.
 * @param {string} name @param {string[]} keys @param {Record<string, string>} [words] @param {string} [further]
 */
function legendOf(name, keys, words = {}, further = "") {
  const texts = keys.map((key) => feed.columns[name][key]).filter(([head]) => head).map(([head, text]) => `${inWords(head, words)}: ${inWords(text, words)}`);
  return h("p", { class: "quiet columns" }, `${[...new Set(texts)].join("; ")}. ${further}`);
}

/** @param {string} text @param {Record<string, string>} words */
function inWords(text, words) {
  return Object.entries(words).reduce((said, [name, word]) => said.replaceAll(`{${name}}`, word), text);
}
