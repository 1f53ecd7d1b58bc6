// Values with their intervals, one row each, on one axis.

/**
 * @typedef {{name: Child, value: number | null, low?: number | null, high?: number | null, dots?: number[],
 *   marks?: Record<string, number>, said: Child, kind?: string}} IntervalRow `dots` are single values behind the
 *   row's, `marks` other values by name; `said` stands at the end of the row
 */

const MARKS = ["|", "○", "◇", "□", "△", "▽", "✕"]; // of other values, in the order of their names

/**
 * Return rows of values with intervals.
 * @param {{title: string, rows: IntervalRow[], low: number, high: number, format: (value: number) => string,
 *   reference?: number, names?: string[]}} figure `reference` is marked by a line, `names` are those of all marks
 */
function intervals({ title, rows, low, high, format, reference, names = [] }) {
  const ticks = steps(low, high, 4), left = Math.min(low, ticks[0]), right = Math.max(high, /** @type {number} */ (ticks.at(-1)));
  const at = (/** @type {number} */ value) => `${(100 * (Math.max(left, Math.min(right, value)) - left)) / (right - left)}%`;
  const rules = ticks.map((tick) => h("i", { class: "tick", style: { left: at(tick) } }));
  const line = reference === undefined ? null : h("i", { class: "reference", style: { left: at(reference) } });
  const track = (/** @type {IntervalRow} */ row) => h("span", { class: "track" }, rules.map((rule) => rule.cloneNode()), line?.cloneNode(),
    row.low !== undefined && row.low !== null && row.high !== null && row.high !== undefined && h("i", { class: "range", style: { left: at(row.low), right: `calc(100% - ${at(row.high)})` } }),
    (row.dots ?? []).map((value) => h("i", { class: "single", style: { left: at(value) } })),
    Object.entries(row.marks ?? {}).map(([name, value]) => h("i", { class: `other k${names.indexOf(name)}`, title: `${name}: ${format(value)}`, style: { left: at(value) } }, MARKS[names.indexOf(name) % MARKS.length])),
    row.value !== null && h("i", { class: "value", style: { left: at(row.value) } }));
  return h("figure", { class: "intervals", role: "img", "aria-label": title },
    names.length > 0 && h("p", { class: "legend" }, names.map((name, place) => h("span", { class: `k${place}` }, `${MARKS[place % MARKS.length]} ${name}`))),
    rows.map((row) => h("div", { class: `interval ${row.kind ?? ""}` }, h("span", { class: "name" }, row.name), track(row), h("span", { class: "said" }, row.said))),
    h("div", { class: "interval axis" }, h("span", { class: "name" }), h("span", { class: "track" }, ticks.map((tick) => h("small", { style: { left: at(tick) } }, format(tick).replace(/\.0$/, "")))), h("span", { class: "said" })));
}

/** @param {{value: number | null, low?: number | null, high?: number | null}} rate @param {(value: number) => string} format */
function withInterval(rate, format) {
  if (rate.value === null) return "–";
  return rate.low === null || rate.low === undefined ? format(rate.value) : `${format(rate.value)} [${format(rate.low)}, ${format(rate.high ?? rate.value)}]`;
}

/** @param {number} share */
function short(share) {
  return (100 * share).toFixed(1);
}

/** @param {number} difference of two shares */
function points(difference) {
  const value = +(100 * difference).toFixed(1);
  return `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(value).toFixed(1)}`;
}
