// The results of an ablation: arms with their curves, paired differences, verdicts, every run, and tasks that flipped.

const MAIN = ["arm", "success", "seeds", "pooled", "gain"]; // columns of the table of arms
const PS = ["tasks", "tasks_holm", "seeds", "seeds_holm", "flips"]; // and of the tests
const flips = { arm: "", rows: "flipped" };

/** @param {Store} store */
function ablationPage(store) {
  const run = store.run, found = store.part("results"), arms = /** @type {any[]} */ (found.arms);
  const done = found.runs.filter((/** @type {any} */ one) => one.state === "finished");
  return [
    h("h1", {}, line(run.name, 80)),
    h("p", { class: "lead" }, [run.env, `${plural(arms.length - 1, "arm")}, ${plural(found.seeds?.length ?? 0, "seed")}`, `evaluated on ${plural(found.tasks ?? 0, "task")}`].filter(Boolean).join(" · ")),
    h("div", { class: "facts" }, h("div", { class: "fact wide" }, h("span", {}, "verdict"), found.comparisons.length
      ? found.comparisons.map((/** @type {any} */ one) => h("p", {}, h("b", {}, `${line(one.arm, 60)} `), `${points(one.difference.value ?? 0)} points against ${line(one.reference, 60)}: ${one.verdict}`)) : "No two arms are finished."),
      fact("runs finished", `${done.length} of ${found.runs.length}`), fact("work, summed over runs", duration(found.seconds ?? 0))),
    notes(store),
    found.curves.lines.length > 0 && [h("h2", {}, "While training"), h("div", { class: "plots wide" }, plot({ title: "Success", about: found.curves.title, points: [], share: true, size: innerWidth < 700 ? [340, 190] : [760, 270],
      lines: found.curves.lines.map((/** @type {any} */ one) => ({ name: one.name, points: one.x.map((/** @type {number} */ x, /** @type {number} */ k) => ({ x, y: one.y[k], ...(one.low.length && one.low[k] !== null ? { low: one.low[k], high: one.high[k] } : {}) })) })) })),
      h("p", { class: "quiet" }, `Success ${found.curves.title}.`)],
    afterTraining(found, arms),
    differences(found),
    h("h2", {}, "Runs"), h("p", { class: "quiet" }, "Success after training, in per cent. Each leads to the pages of its run: curves, groups, turns, failures."), runsTable(store, found, arms),
    diagnostics(arms),
    command(run),
    versions(run),
  ].flat().filter(Boolean);
}

/** @param {any} found @param {any[]} arms */
function afterTraining(found, arms) {
  const shown = arms.filter((arm) => arm.pooled.n);
  if (!shown.length) return missing("There are no results yet.");
  const seeds = (/** @type {any} */ arm) => found.runs.filter((/** @type {any} */ one) => one.arm === arm.name && one.success).map((/** @type {any} */ one) => one.success.value);
  const ends = (/** @type {any} */ arm) => (arm.success.low === null ? arm.pooled : arm.success), clip = (/** @type {number} */ v) => Math.max(0, Math.min(1, v));
  const rows = shown.map((arm) => ({ name: line(arm.name, 60), value: arm.success.value, low: clip(ends(arm).low), high: clip(ends(arm).high), dots: seeds(arm),
    said: withInterval({ value: arm.success.value, low: clip(ends(arm).low), high: clip(ends(arm).high) }, short), kind: arm.name === "warm start" ? "base" : "" }));
  const gain = (/** @type {any} */ arm) => (arm.name === "warm start" ? "" : withInterval(arm.gain, points));
  return [h("h2", {}, "After training"),
    h("p", { class: "quiet" }, "Success in per cent: the mean over seeds with its 95 % t-interval (Wilson's where all seeds are equal, or there is one), and each seed as a small circle. The line is the warm start."),
    intervals({ title: "success after training", rows, low: 0, high: Math.max(0.1, ...rows.flatMap((row) => [row.high, ...row.dots])), format: short, reference: arms[0].success.value ?? undefined }),
    table(heads("ablation", MAIN), shown.map((arm) => [line(arm.name, 80), withInterval({ ...arm.success, ...(arm.success.low === null ? {} : { low: clip(arm.success.low), high: clip(arm.success.high) }) }, short),
      arm.success.n, `${withInterval(arm.pooled, short)} (${arm.pooled.k}/${arm.pooled.n})`, gain(arm)])),
    legendOf("ablation", MAIN)];
}

/** @param {any} found */
function differences(found) {
  const rows = /** @type {any[]} */ (found.comparisons);
  if (!rows.length) return null;
  const ends = rows.flatMap(({ difference: d }) => [d.value, d.low ?? d.value, d.high ?? d.value, 0]);
  const several = (/** @type {any} */ one) => one.seeds.length > 1, words = { reference: line(found.reference, 60) };
  return [h("h2", {}, `Against ${line(found.reference, 60)}`),
    h("p", { class: "quiet" }, "Difference of success in percentage points, paired by seed, with its 95 % t-interval over seeds. Each seed is a small circle."),
    intervals({ title: "paired differences", low: Math.min(...ends), high: Math.max(...ends), format: points, reference: 0, rows: rows.map((one) => ({ name: line(one.arm, 60), value: one.difference.value,
      low: one.difference.low, high: one.difference.high, dots: one.seeds.map((/** @type {any} */ seed) => seed.difference), said: withInterval(one.difference, points) })) }),
    table([...heads("ablation", ["arm", "difference"], words), ...heads("tests", PS), ...heads("ablation", ["verdict"])], rows.map((one) => [line(one.arm, 60), withInterval(one.difference, points), pValue(one.p_tasks), pValue(one.p_tasks_holm),
      ...(several(one) ? [pValue(one.p_seeds), pValue(one.p_seeds_holm), `${pValue(one.p_flips)} (${plain(one.smallest)})`] : ["–", "–", "–"]), h("b", {}, one.verdict)])),
    legendOf("ablation", ["difference"], words), legendOf("tests", PS, {}, "p-values are two-sided, smaller is more certain. “Beyond the noise” needs a corrected p over seeds below 0.05.")];
}

/** @param {Store} store @param {any} found @param {any[]} arms */
function runsTable(store, found, arms) {
  const cell = (/** @type {string} */ arm, /** @type {number} */ seed) => {
    const place = found.runs.findIndex((/** @type {any} */ one) => one.arm === arm && one.seed === seed), one = found.runs[place];
    const text = one.state === "finished" && one.success ? short(one.success.value) : one.state === "unfinished" ? `running, iteration ${one.iterations}` : one.state;
    return store.feed.parts.has(`${place}:run`) ? h("a", { href: `#//run/${place}/` }, text) : h("span", { class: "quiet" }, text);
  };
  return table(["arm", ...found.seeds.map((/** @type {number} */ seed) => `seed ${seed}`)], arms.map((arm) => [line(arm.name, 80), ...found.seeds.map((/** @type {number} */ seed) => cell(arm.name, seed))]));
}

/** @param {any[]} arms */
function diagnostics(arms) {
  const shown = arms.filter((arm) => Object.values(arm.diagnostics).some((value) => value !== null)), keys = Object.keys(feed.columns.diagnostics);
  return shown.length > 0 && [h("h2", {}, "Why"),
    table(heads("diagnostics", keys), shown.map((arm) => [line(arm.name, 80), ...keys.slice(1, -1).map((key) => percent(arm.diagnostics[key])), arm.diagnostics.turns?.toFixed(1) ?? "–"])),
    legendOf("diagnostics", keys)];
}

/** Tasks that one arm wins more often than another. @param {Store} store */
function flipsPage(store) {
  const place = h("div", {}), draw = () => put(place, flipped(store, draw));
  draw();
  return [h("h1", {}, "Flipped tasks"), h("p", { class: "quiet" }, "Each task of the evaluation after training, and in how many seeds the arms won it: those that differ most come first. ",
    "A mark is a seed: ● won, ○ not won, ! failed. Evaluations store outcomes, not turns; the turns of training are in the pages of each run."), place];
}

/** @param {Store} store @param {() => void} redraw */
function flipped(store, redraw) {
  const found = store.part("results"), all = store.evaluations, names = found.arms.map((/** @type {any} */ arm) => arm.name).filter((/** @type {string} */ name) => all.some((one) => one.arm === name));
  const others = names.filter((/** @type {string} */ name) => name !== found.reference);
  if (!names.includes(found.reference) || !others.length) return missing("No two arms are finished.");
  const arm = others.includes(flips.arm) ? flips.arm : others.at(-1);
  const of = (/** @type {string} */ name) => new Map(all.filter((one) => one.arm === name).map((one) => [one.seed, new Map(one.rows.map((row) => [keyOf(row), row]))]));
  const first = of(found.reference), second = of(arm), seeds = [...first.keys()].filter((seed) => second.has(seed));
  const keys = new Map(all.flatMap((one) => one.rows.map((row) => [keyOf(row), row])));
  const wonBy = (/** @type {Map<any, Map<string, Outcome>>} */ side, /** @type {string} */ key) => seeds.map((seed) => side.get(seed)?.get(key)?.[2] ?? null);
  const sum = (/** @type {(0|1|null)[]} */ marks) => marks.reduce((/** @type {number} */ total, one) => total + (one ?? 0), 0);
  const rows = [...keys].map(([key, row]) => { const a = wonBy(first, key), b = wonBy(second, key); return { row, a, b, by: sum(b) - sum(a), moved: a.some((one, k) => one !== b[k]) }; })
    .sort((x, y) => Math.abs(y.by) - Math.abs(x.by) || y.by - x.by || Number(y.moved) - Number(x.moved));
  const shown = flips.rows === "all" ? rows : rows.filter((row) => row.moved);
  const signs = (/** @type {(0|1|null)[]} */ marks) => h("span", { class: "signs", "aria-label": `${sum(marks)} of ${marks.length} won` }, marks.map((one) => (one === 1 ? "●" : one === 0 ? "○" : "!")).join(" "));
  const verdict = found.comparisons.find((/** @type {any} */ one) => one.arm === arm);
  return [
    h("div", { class: "filters" }, choice("arm", others.map((/** @type {string} */ name) => [name, name]), arm, (value) => { flips.arm = value; redraw(); }),
      choice("tasks", [["flipped", "that flipped in a seed"], ["all", "all"]], flips.rows, (value) => { flips.rows = value; redraw(); })),
    verdict && h("p", { class: "verdict" }, `${line(arm, 60)} against ${line(found.reference, 60)}: ${withInterval(verdict.difference, points)} points, ${verdict.verdict}`),
    table(["task", "type", line(found.reference, 40), line(arm, 40), "seeds"], shown.slice(0, 500).map(({ row, a, b, by }) => [h("code", {}, line(row[0], 80)), line(row[1]), signs(a), signs(b), by ? `${by > 0 ? "+" : "−"}${Math.abs(by)}` : "0"]), 2),
    h("p", { class: "quiet" }, `${shown.length} of ${rows.length} tasks, ${plural(seeds.length, "seed")}${shown.length > 500 ? "; the first 500 are shown" : ""}. A difference in a seed may be chance: the verdict above is the test.`),
  ];
}
