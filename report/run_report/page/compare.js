// Two evaluations on one panel, task by task.

const compared = { first: "", second: "", rows: "flipped", type: "" };

/**
 * Return the paired comparison of two evaluations over the tasks that both played without an error.
 * @param {Evaluation} one @param {Evaluation} two
 */
function paired(one, two) {
  const others = new Map(two.rows.map((row) => [keyOf(row), row]));
  const both = one.rows.flatMap((a) => { const b = others.get(keyOf(a)); return b ? [{ a, b }] : []; });
  const pairs = both.filter(({ a, b }) => a[2] !== null && b[2] !== null), n = pairs.length;
  const onlyFirst = pairs.filter(({ a, b }) => a[2] === 1 && b[2] === 0).length;
  const onlySecond = pairs.filter(({ a, b }) => a[2] === 0 && b[2] === 1).length;
  const k1 = pairs.filter(({ a }) => a[2] === 1).length, k2 = pairs.filter(({ b }) => b[2] === 1).length;
  return { both, pairs: n, k1, k2, first: n ? k1 / n : null, second: n ? k2 / n : null, onlyFirst, onlySecond, p: mcnemar(onlyFirst, onlySecond),
    leftOut: new Set([...one.rows, ...two.rows].map(keyOf)).size - n };
}

/** Return what is equal for the same episode to play. @param {Outcome} row */
function keyOf(row) {
  return JSON.stringify([row[0], row[6]]);
}

/** Return p-values corrected by Holm's method. @param {number[]} p */
function holm(p) {
  const order = p.map((_, place) => place).sort((a, b) => p[a] - p[b]), found = p.slice();
  let least = 0;
  order.forEach((place, rank) => { least = Math.max(least, Math.min(1, p[place] * (p.length - rank))); found[place] = least; });
  return found;
}

/** Return how a task of an evaluation is named; a benchmark's leads to the episode. @param {Store} store */
function episodesOf(store) {
  const places = new Map(store.run.kind !== "benchmark" ? [] : store.iterations.flatMap((one) => one.groups.map((group, index) => [JSON.stringify([one.label, group.task]), `#/turn/${one.number}/${index}/0/0`])));
  return (/** @type {Outcome} */ row) => {
    const href = places.get(JSON.stringify([row[1], row[0]])), name = h("code", {}, line(row[0], 80));
    return href ? h("a", { href, title: "the episode of this benchmark's player" }, name) : name;
  };
}

/** @param {0|1|null} won */
function badgeOf(won) {
  return h("span", { class: `badge ${won === 1 ? "won" : won === 0 ? "lost" : "failed"}` }, won === 1 ? "won" : won === 0 ? "not won" : "failed");
}

/** @param {Store} store */
function comparePage(store) {
  const found = store.evaluations;
  if (found.length < 2) return [h("h1", {}, "Compare"), ...missing("There are fewer than two evaluations here. `--against FOLDER` adds those of another run or benchmark.")];
  const place = h("div", {});
  const draw = () => put(place, comparison(store, found, draw));
  draw();
  return [h("h1", {}, "Compare"), place];
}

/** @param {Store} store @param {Evaluation[]} found @param {() => void} redraw */
function comparison(store, found, redraw) {
  const own = found.filter((one) => !one.other), named = (/** @type {string} */ name) => found.find((one) => one.name === name);
  const reference = store.part("results")?.reference, one = named(compared.first) ?? own.find((each) => each.arm === reference && reference) ?? own[0] ?? found[0];
  const others = found.filter((other) => other !== one && other.seed === one.seed);
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
  const kind = store.run.kind === "benchmark" ? "panel" : "task type", episode = episodesOf(store);
  const groups = /** @type {[string, string, number][]} */ ([["Parts", "part", 7], kind === "panel" ? ["Panels", kind, 1] : ["Task types", kind, 1]]);
  return [
    h("div", { class: "filters" }, choice("first", names, one.name, set("first")), choice("second", names, two.name, set("second"))),
    result.pairs === 0 ? missing("The two evaluations share no task that both played without an error.") : [
      table(["", ...heads("eval", ["success", "interval", "won"])], [rate(line(one.name), result.k1, result.pairs), rate(line(two.name), result.k2, result.pairs)]),
      legendOf("eval", ["success", "interval", "won"]),
      h("p", { class: "verdict" }, `${result.onlySecond} tasks won only by the second, ${result.onlyFirst} only by the first; exact McNemar p=${pValue(result.p)}: ${result.p < 0.05 ? "beyond" : "within"} the noise.`),
      result.leftOut > 0 && h("p", { class: "quiet" }, `${result.leftOut} tasks are left out: only one of the two played them, or an episode failed.`),
      groups.map(([title, name, field]) => byKind(result.both, title, name, field)),
      h("h2", {}, "Tasks"),
      h("div", { class: "filters" }, choice("tasks", [["flipped", "that flipped"], ["all", "all"]], compared.rows, set("rows")),
        types.length > 1 && choice(kind, [["", "all"], ...types.map((type) => /** @type {[string, string]} */ ([type, type]))], compared.type, set("type"))),
      table(["task", kind, "first", "second", "turns"], rows.slice(0, 500).map(({ a, b }) => [episode(a), line(a[1]), badgeOf(a[2]), badgeOf(b[2]), `${a[4]} → ${b[4]}`]), 2),
      h("p", { class: "quiet" }, `${rows.length} of ${result.both.length} tasks${rows.length > 500 ? "; the first 500 are shown" : ""}`),
    ].filter(Boolean).flat(),
  ].flat().filter(Boolean);
}

/**
 * Return the comparison kind by kind, with p-values corrected for their number; null for one kind.
 * @param {{a: Outcome, b: Outcome}[]} both @param {string} title @param {string} name
 * @param {number} field which entry of an outcome says its kind
 */
function byKind(both, title, name, field) {
  const kinds = [...new Set(both.map(({ a }) => String(a[field] ?? "")))].sort().flatMap((kind) => {
    const pairs = both.filter(({ a, b }) => String(a[field] ?? "") === kind && a[2] !== null && b[2] !== null), n = pairs.length;
    const k = (/** @type {"a"|"b"} */ side) => pairs.filter((pair) => pair[side][2] === 1).length;
    const only = (/** @type {"a"|"b"} */ side, /** @type {"a"|"b"} */ other) => pairs.filter((pair) => pair[side][2] === 1 && pair[other][2] === 0).length;
    return n ? [{ cells: [line(kind) || `(no ${name})`, `${k("a")}/${n}`, `${k("b")}/${n}`, points((k("b") - k("a")) / n)], p: mcnemar(only("a", "b"), only("b", "a")) }] : [];
  });
  const corrected = holm(kinds.map(({ p }) => p));
  return kinds.length > 1 && [h("h2", {}, title), table([name, "first", "second", ...heads("card_comparison", ["points", "p", "holm"])], kinds.map(({ cells, p }, place) => [...cells, pValue(p), pValue(corrected[place])])),
    legendOf("card_comparison", ["points", "p", "holm"])];
}
