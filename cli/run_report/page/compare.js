// Two evaluations on one panel, task by task.

const compared = { first: "", second: "", rows: "flipped", type: "" };

/**
 * Return the paired comparison of two evaluations over the tasks that both played without an error.
 * @param {Evaluation} one @param {Evaluation} two
 */
function paired(one, two) {
  const others = new Map(two.rows.map((row) => [row[0], row]));
  const both = one.rows.flatMap((a) => { const b = others.get(a[0]); return b ? [{ a, b }] : []; });
  const pairs = both.filter(({ a, b }) => a[2] !== null && b[2] !== null), n = pairs.length;
  const onlyFirst = pairs.filter(({ a, b }) => a[2] === 1 && b[2] === 0).length;
  const onlySecond = pairs.filter(({ a, b }) => a[2] === 0 && b[2] === 1).length;
  const k1 = pairs.filter(({ a }) => a[2] === 1).length, k2 = pairs.filter(({ b }) => b[2] === 1).length;
  return { both, pairs: n, k1, k2, first: n ? k1 / n : null, second: n ? k2 / n : null, onlyFirst, onlySecond, p: mcnemar(onlyFirst, onlySecond),
    leftOut: new Set([...one.rows, ...two.rows].map((row) => row[0])).size - n };
}

/** @param {Store} store */
function comparePage(store) {
  const found = store.evaluations;
  if (found.length < 2) return [h("h1", {}, "Compare"), ...missing("This run has fewer than two evaluations. `--against RUN` adds those of another run.")];
  const place = h("div", {});
  const draw = () => put(place, comparison(found, draw));
  draw();
  return [h("h1", {}, "Compare"), place];
}

/** @param {Evaluation[]} found @param {() => void} redraw */
function comparison(found, redraw) {
  const own = found.filter((one) => !one.other), named = (/** @type {string} */ name) => found.find((one) => one.name === name);
  const one = named(compared.first) ?? own[0] ?? found[0], others = found.filter((other) => other !== one);
  const two = named(compared.second) ?? others.at(-1) ?? found[0];
  const names = /** @type {[string, string][]} */ (found.map((each) => [each.name, each.name]));
  const result = paired(one, two);
  const set = (/** @type {"first"|"second"|"rows"|"type"} */ key) => (/** @type {string} */ value) => { compared[key] = value; redraw(); };
  const types = [...new Set(result.both.map(({ a }) => a[1]))].sort();
  const flipped = (/** @type {any} */ pair) => pair.a[2] !== pair.b[2];
  const order = [...result.both].sort((x, y) => Number(flipped(y)) - Number(flipped(x)) || Number(y.b[2]) - Number(x.b[2]));
  const rows = order.filter((pair) => (compared.rows !== "flipped" || flipped(pair)) && (!compared.type || pair.a[1] === compared.type));
  const rate = (/** @type {string} */ label, /** @type {number} */ k, /** @type {number} */ n) => {
    const [low, high] = wilson(k, n);
    return [label, percent(n ? k / n : null), `${percent(low)} – ${percent(high)}`, `${k}/${n}`];
  };
  const sign = (/** @type {0|1|null} */ won) => h("span", { class: `badge ${won === 1 ? "won" : won === 0 ? "lost" : "failed"}` }, won === 1 ? "won" : won === 0 ? "not won" : "failed");
  const kinds = types.flatMap((type) => {
    const pairs = result.both.filter(({ a, b }) => a[1] === type && a[2] !== null && b[2] !== null), n = pairs.length;
    const k = (/** @type {"a"|"b"} */ side) => pairs.filter((pair) => pair[side][2] === 1).length;
    return n ? [[line(type) || "(no type)", `${k("a")}/${n}`, `${k("b")}/${n}`, `${k("b") - k("a") > 0 ? "+" : ""}${((100 * (k("b") - k("a"))) / n).toFixed(1)}`]] : [];
  });
  return [
    h("div", { class: "filters" }, choice("first", names, one.name, set("first")), choice("second", names, two.name, set("second"))),
    result.pairs === 0 ? missing("The two evaluations share no task that both played without an error.") : [
      table(["", "success", "95 % interval", "won"], [rate(line(one.name), result.k1, result.pairs), rate(line(two.name), result.k2, result.pairs)]),
      h("p", { class: "verdict" }, `${result.onlySecond} tasks won only by the second, ${result.onlyFirst} only by the first; exact McNemar p=${pValue(result.p)}: ${result.p < 0.05 ? "beyond" : "within"} the noise.`),
      result.leftOut > 0 && h("p", { class: "quiet" }, `${result.leftOut} tasks are left out: only one of the two played them, or an episode failed.`),
      kinds.length > 1 && [h("h2", {}, "Task types"), table(["type", "first", "second", "points"], kinds)],
      h("h2", {}, "Tasks"),
      h("div", { class: "filters" }, choice("tasks", [["flipped", "that flipped"], ["all", "all"]], compared.rows, set("rows")),
        types.length > 1 && choice("task type", [["", "all"], ...types.map((type) => /** @type {[string, string]} */ ([type, type]))], compared.type, set("type"))),
      table(["task", "type", "first", "second", "turns"], rows.slice(0, 500).map(({ a, b }) => [h("code", {}, line(a[0], 80)), line(a[1]), sign(a[2]), sign(b[2]), `${a[4]} → ${b[4]}`]), 2),
      h("p", { class: "quiet" }, `${rows.length} of ${result.both.length} tasks${rows.length > 500 ? "; the first 500 are shown" : ""}`),
    ].filter(Boolean).flat(),
  ].flat().filter(Boolean);
}
