// Curves with bands, drawn as SVG.

/** @typedef {{x: number, y: number, low?: number, high?: number, n?: number}} Point */

const LEFT = 44, RIGHT = 10, ABOVE = 10, BELOW = 24;

/**
 * Return a curve of one number over iterations, or several, with a band where points have an interval.
 * @param {{title: string, about?: string, points: Point[], lines?: {name: string, points: Point[]}[], marks?: Point[],
 *   share?: boolean, last?: number, size?: [number, number]}} curve
 *   `lines` are further curves with names; `marks` single points with intervals; `share` writes percentages from 0
 */
function plot({ title, about = "", points, lines = [], marks = [], share = false, last = 0, size: [WIDE, HIGH] = [340, 170] }) {
  const drawn = points.length ? [{ name: "", points }, ...lines] : lines, all = [...drawn.flatMap((one) => one.points), ...marks];
  const format = share ? (/** @type {number} */ v) => `${+(100 * v).toFixed(1)} %` : plain;
  const values = all.flatMap((p) => [p.y, p.low ?? p.y, p.high ?? p.y]);
  let low = share ? 0 : Math.min(...values), high = Math.max(...values, share ? 0.01 : -Infinity);
  if (low > 0 && low < 0.5 * high) low = 0;
  if (high === low) [low, high] = [low - 0.5 * Math.abs(low || 1), high + 0.5 * Math.abs(high || 1)];
  const ticks = steps(low, high, 4);
  [low, high] = [Math.min(low, ticks[0]), Math.max(high, /** @type {number} */ (ticks.at(-1)))];
  const first = Math.min(...all.map((p) => p.x)), end = Math.max(last, ...all.map((p) => p.x), first + 1);
  const x = (/** @type {number} */ v) => LEFT + ((v - first) / (end - first)) * (WIDE - LEFT - RIGHT);
  const y = (/** @type {number} */ v) => HIGH - BELOW - ((v - low) / (high - low)) * (HIGH - ABOVE - BELOW);
  const at = (/** @type {number[][]} */ pairs) => pairs.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
  const shown = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${title} over iterations` });
  for (const tick of ticks)
    shown.append(
      svg("line", { class: "rule", x1: LEFT, x2: WIDE - RIGHT, y1: y(tick), y2: y(tick) }),
      svg("text", { x: LEFT - 6, y: y(tick) + 3.5, "text-anchor": "end" }, format(tick)),
    );
  for (const tick of steps(first, end, 5).filter((v) => Number.isInteger(v) && v >= first && v <= end))
    shown.append(svg("text", { x: x(tick), y: HIGH - 7, "text-anchor": "middle" }, tick));
  for (const [place, one] of drawn.entries()) {
    const banded = one.points.filter((p) => p.low !== undefined), kind = `l${place}`;
    if (banded.length > 1) {
      const around = [...banded.map((p) => [p.x, p.high ?? p.y]), ...banded.reverse().map((p) => [p.x, p.low ?? p.y])];
      shown.append(svg("polygon", { class: `band ${kind}`, points: at(around) }));
    }
    shown.append(svg("polyline", { class: `curve ${kind}`, points: at(one.points.map((p) => [p.x, p.y])) }));
    if (one.points.length < 30)
      for (const p of one.points) shown.append(svg("circle", { class: `dot ${kind}`, cx: x(p.x), cy: y(p.y), r: 2.4 }));
  }
  for (const p of marks)
    shown.append(
      svg("line", { class: "whisker", x1: x(p.x), x2: x(p.x), y1: y(p.low ?? p.y), y2: y(p.high ?? p.y) }),
      svg("rect", { class: "mark", x: x(p.x) - 4, y: y(p.y) - 4, width: 8, height: 8, rx: 1 }),
    );
  const newest = lines.length ? undefined : (points.at(-1) ?? marks.at(-1));
  const value = h("output", {}, newest ? format(newest.y) : "");
  const ruler = svg("line", { class: "ruler", y1: ABOVE, y2: HIGH - BELOW, visibility: "hidden" });
  shown.append(ruler);
  shown.addEventListener("pointermove", (event) => {
    const box = shown.getBoundingClientRect();
    const wanted = first + ((((event.clientX - box.left) / box.width) * WIDE - LEFT) / (WIDE - LEFT - RIGHT)) * (end - first);
    const near = all.reduce((a, b) => (Math.abs(b.x - wanted) < Math.abs(a.x - wanted) ? b : a));
    ruler.setAttribute("x1", String(x(near.x)));
    ruler.setAttribute("x2", String(x(near.x)));
    ruler.setAttribute("visibility", "visible");
    /** @type {[string, Point | undefined][]} */
    const here = [...drawn, { name: "evaluation", points: marks }].map((one) => [one.name, one.points.find((p) => p.x === near.x)]);
    const said = here.map(([name, p]) => p && `${name ? `${name} ` : ""}${format(p.y)}${lines.length ? "" : interval(p, format)}`);
    value.textContent = `iteration ${near.x}: ${said.filter(Boolean).join(", ")}`;
  });
  shown.addEventListener("pointerleave", () => {
    ruler.setAttribute("visibility", "hidden");
    value.textContent = newest ? format(newest.y) : "";
  });
  return h("figure", { class: "plot" }, h("figcaption", { title: about }, h("b", {}, title), lines.length > 0 && h("span", { class: "names" }, drawn.map((one, place) => h("span", { class: `l${place}` }, line(one.name, 40)))), value), shown);
}

/** @param {Point} p @param {(v: number) => string} format */
function interval(p, format) {
  return p.low === undefined ? "" : ` [${format(p.low)}, ${format(p.high ?? p.y)}]${p.n ? ` n=${p.n}` : ""}`;
}

/** Return round numbers from low to high. @param {number} low @param {number} high @param {number} about how many */
function steps(low, high, about) {
  const rough = (high - low) / about, power = 10 ** Math.floor(Math.log10(rough));
  const size = ([1, 2, 2.5, 5, 10].find((m) => m * power >= rough) ?? 10) * power;
  const found = [];
  for (let k = Math.floor(low / size + 1e-9); k <= Math.ceil(high / size - 1e-9); k++) found.push(+(k * size).toPrecision(12));
  return found;
}

/** Return a bar in parts, with a legend. @param {[string, number, string][]} parts name, size and text */
function bar(parts) {
  const whole = parts.reduce((sum, part) => sum + part[1], 0) || 1;
  return h(
    "div",
    { class: "stack" },
    h("div", { class: "bar" }, parts.map(([key, size], place) =>
      h("i", { class: `c${place}`, title: key, style: { width: `${(100 * size) / whole}%` } }))),
    h("ul", {}, parts.map(([key, size, text], place) =>
      h("li", {}, h("i", { class: `c${place}` }), `${key} ${text} (${((100 * size) / whole).toFixed(0)} %)`))),
  );
}

/**
 * Return dots of two numbers with intervals of the second, around zero.
 * @param {string} xName @param {string} yName
 * @param {{x: number, y: number, low: number, high: number, text: string, href: string}[]} points
 */
function scatter(xName, yName, points) {
  const narrow = innerWidth < 700, WIDE = narrow ? 340 : 560, HIGH = narrow ? 280 : 340, LOW = 40;
  const xs = Math.max(1e-6, ...points.map((p) => Math.abs(p.x))), ys = Math.max(1e-6, ...points.map((p) => Math.max(Math.abs(p.low), Math.abs(p.high))));
  const x = (/** @type {number} */ v) => LEFT + ((v / xs + 1.05) / 2.1) * (WIDE - LEFT - RIGHT);
  const y = (/** @type {number} */ v) => HIGH - LOW - ((v / ys + 1.05) / 2.1) * (HIGH - ABOVE - LOW);
  const shown = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${xName} and ${yName} of ${points.length} turns` });
  shown.append(
    svg("line", { class: "rule", x1: LEFT, x2: WIDE - RIGHT, y1: y(0), y2: y(0) }),
    svg("line", { class: "rule", x1: x(0), x2: x(0), y1: ABOVE, y2: HIGH - LOW }),
    svg("text", { x: (WIDE + LEFT) / 2, y: HIGH - 6, "text-anchor": "middle" }, xName),
    svg("text", { x: 12, y: (HIGH - LOW) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(HIGH - LOW) / 2})` }, yName));
  for (const tick of steps(-xs, xs, 4)) if (Math.abs(tick) <= xs) shown.append(svg("text", { x: x(tick), y: HIGH - 22, "text-anchor": "middle" }, plain(tick)));
  for (const tick of steps(-ys, ys, 4)) if (Math.abs(tick) <= ys) shown.append(svg("text", { x: LEFT - 6, y: y(tick) + 3.5, "text-anchor": "end" }, plain(tick)));
  const kinds = { unknown: "l5", right: "l0", wrong: "l1" }, verdict = (/** @type {(typeof points)[0]} */ p) => (p.low <= 0 && p.high >= 0) || !p.x ? "unknown" : p.x * p.y > 0 ? "right" : "wrong";
  const cap = 2.5, order = /** @type {("unknown"|"right"|"wrong")[]} */ (["unknown", "right", "wrong"]);
  for (const name of order) for (const p of points.filter((one) => verdict(one) === name)) {
    const kind = kinds[name], end = (/** @type {number} */ v) => svg("line", { class: `curve spread ${kind}`, x1: x(p.x) - cap, x2: x(p.x) + cap, y1: y(v), y2: y(v) });
    shown.append(svg("a", { href: p.href }, svg("title", {}, p.text),
      svg("line", { class: `curve spread ${kind}`, x1: x(p.x), x2: x(p.x), y1: y(p.low), y2: y(p.high) }), end(p.low), end(p.high),
      svg("circle", { class: `dot ${kind}`, cx: x(p.x), cy: y(p.y), r: 3.2 })));
  }
  const said = { right: "the right sign", wrong: "the wrong sign", unknown: "not told: the bar contains 0, or the rule says 0" };
  return h("figure", { class: "plot" }, h("figcaption", {}, h("span", { class: "names" }, /** @type {("right"|"wrong"|"unknown")[]} */ (["right", "wrong", "unknown"]).map((name) =>
    h("span", { class: kinds[name] }, `${said[name]}: ${plural(points.filter((p) => verdict(p) === name).length, "turn")}`)))), shown);
}
