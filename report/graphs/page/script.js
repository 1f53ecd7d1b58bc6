// The choice of the credit rule, and what is known of the step or the state at the pointer.

/**
 * What `html.py` stores in the page.
 * @typedef {object} Diagram
 * @property {Record<string, number>} extent largest advantage by credit rule
 * @property {string[]} nodes what is known of each state
 * @property {{advantage: Record<string, number>, tip: string}[]} edges each step
 */

/** @typedef {[number, number, number]} Colour */

/** @type {Colour} */
const POSITIVE = [33, 102, 172];
/** @type {Colour} */
const ZERO = [150, 150, 150];
/** @type {Colour} */
const NEGATIVE = [217, 95, 2];
const GAP = 14; // pixels between the pointer and the box
const MARGIN = 8; // pixels between the box and the border of the window

/**
 * The element of an id, which the page has.
 * @param {string} id
 * @returns {HTMLElement}
 */
function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no #${id}`);
  return element;
}

/** @type {Diagram} */
const diagram = JSON.parse(byId("data").textContent ?? "");
const box = byId("tip");
const view = byId("view");

/**
 * The colour of an advantage. `style.py` paints the same.
 * @param {number} value
 * @param {number} extent the advantage that has the full colour
 */
function colour(value, extent) {
  const share = extent > 0 ? Math.max(-1, Math.min(1, value / extent)) : 0;
  const weight = Math.abs(share) ** 0.6;
  const end = share > 0 ? POSITIVE : NEGATIVE;
  return `rgb(${ZERO.map((level, channel) => Math.round(level + (end[channel] - level) * weight)).join(",")})`;
}

/**
 * Colour all steps by a credit rule.
 * @param {string} rule
 */
function paint(rule) {
  const extent = diagram.extent[rule];
  for (const step of /** @type {NodeListOf<SVGElement>} */ (document.querySelectorAll(".step"))) {
    const painted = colour(diagram.edges[Number(step.dataset.edge)].advantage[rule], extent);
    for (const line of step.querySelectorAll(".ink")) line.setAttribute("stroke", painted);
    for (const end of step.querySelectorAll(".tip")) end.setAttribute("fill", painted);
  }
  byId("whose").textContent = `advantage (${rule})`;
  byId("least").textContent = `-${extent.toFixed(2)}`;
  byId("most").textContent = `+${extent.toFixed(2)}`;
}

/**
 * Show what is known of the step or the state at the pointer.
 * @param {MouseEvent} event
 */
function showTip(event) {
  const target = /** @type {Element} */ (event.target).closest(".step, .node");
  if (!(target instanceof SVGElement)) {
    box.style.display = "none";
    return;
  }
  const { edge, node } = target.dataset;
  box.textContent = edge === undefined ? diagram.nodes[Number(node)] : diagram.edges[Number(edge)].tip;
  box.style.display = "block";
  box.style.left = `${Math.min(event.clientX + GAP, innerWidth - box.offsetWidth - MARGIN)}px`;
  box.style.top = `${Math.min(event.clientY + GAP, innerHeight - box.offsetHeight - MARGIN)}px`;
}

byId("who").addEventListener("change", (event) => paint(/** @type {HTMLSelectElement} */ (event.target).value));
byId("fit").addEventListener("change", (event) =>
  view.classList.toggle("fit", /** @type {HTMLInputElement} */ (event.target).checked),
);
view.addEventListener("mousemove", showTip);
view.addEventListener("mouseleave", () => {
  box.style.display = "none";
});
