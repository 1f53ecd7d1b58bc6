// The first page: curves, evaluations, time, settings and versions.

/** @type {[string, string, string, boolean][]} key, title, explanation, whether it is a share */
const CURVES = [
  ["reward", "Reward", "mean sum of rewards of an episode", false],
  ["turns", "Length", "mean number of turns of an episode", false],
  ["entropy", "Entropy", "mean entropy of the sampled tokens (nats)", false],
  ["clip_fraction", "Clip fraction", "share of tokens at which the objective was clipped", true],
  ["gap", "Gap between engine and learner", "mean difference of their log-probabilities (nats)", false],
  ["age", "Staleness", "updates between the weights that sampled a turn and those that train on it, mean", false],
  ["learner_idle", "Learner idle", "share of the time in which it waits for groups", true],
  ["engine_idle", "Engine idle", "share of the time in which it answers no request", true],
  ["loss", "Loss", "", false],
  ["grad_norm", "Norm of the gradient", "", false],
  ["inadmissible", "Inadmissible actions", "share of turns", true],
  ["unparsable", "Unparsable answers", "share of turns", true],
  ["loops", "Repeated actions", "share of turns that repeat an earlier action in the same state", true],
  ["step_signal", "Turns with a step-level signal", "share of turns whose advantage has a part of their own", true],
  ["advantage", "Mean advantage", "over turns; below zero, what all turns have in common is pushed down", false],
  ["no_variance_groups", "Groups without a difference", "share of groups whose episodes all earned the same", true],
];
const HIDDEN = new Set(["iteration", "left", "seconds_left", "episodes", "errors", "uncounted", "success", "success_error"]);

/** @param {Store} store */
function overview(store) {
  const trained = store.events("train"), run = store.run;
  return [
    h("h1", {}, line(run.name, 80)),
    h("p", { class: "lead" }, [run.env, run.method && `credit by ${run.method}`].filter(Boolean).join(" · ")),
    headline(store, trained),
    notes(store),
    curves(store, trained),
    drawingCurves(trained, store.run.steps ?? 0),
    spent(store, trained),
    command(run),
    settings(run),
    versions(run),
  ];
}

/** @param {Store} store @param {any[]} trained */
function headline(store, trained) {
  const own = store.evaluations.filter((one) => !one.other);
  const episodes = store.iterations.flatMap((one) => one.groups).reduce((sum, group) => sum + group.won.length, 0);
  const turns = store.iterations.flatMap((one) => one.groups).flatMap((group) => group.turns);
  const facts = [
    fact("iterations", `${trained.length || store.iterations.length}${store.run.steps > trained.length ? ` of ${store.run.steps}` : ""}`),
    fact("episodes", count(episodes)),
    fact("turns", count(turns.reduce((sum, n) => sum + n, 0))),
  ];
  const outcomes = store.iterations.flatMap((one) => one.groups).flatMap((group) => group.won).filter((won) => won !== null);
  if (!trained.length && !own.length && outcomes.length) {
    const won = outcomes.filter(Boolean).length, [low, high] = wilson(won, outcomes.length);
    facts.unshift(
      h("div", { class: "fact wide" }, h("span", {}, "success"), h("b", {}, percent(won / outcomes.length)),
        h("small", {}, `95 % interval ${percent(low)} to ${percent(high)}; ${won} of ${outcomes.length} episodes won, counted as one sample`)),
    );
  }
  if (own.length > 1) {
    const [before, after] = [own[0], /** @type {Evaluation} */ (own.at(-1))];
    const found = paired(before, after);
    facts.unshift(
      h(
        "a",
        { class: "fact wide", href: "#/compare" },
        h("span", {}, "success before → after"),
        h("b", {}, `${percent(found.first)} → ${percent(found.second)}`),
        h("small", {}, `${found.pairs} tasks, ${found.onlySecond} won only after, ${found.onlyFirst} only before; exact McNemar p=${pValue(found.p)}`),
      ),
    );
  }
  return h("div", { class: "facts" }, facts);
}

/** @param {string} label @param {string} value */
function fact(label, value) {
  return h("div", { class: "fact" }, h("span", {}, label), h("b", {}, value));
}

/** @param {Store} store */
function notes(store) {
  const said = [
    ...store.run.notes,
    ...[...store.events("warning"), ...store.events("note")].map((event) => `iteration ${event.iteration}: ${event.text}`),
  ];
  const kept = store.kept;
  if (kept && kept.turns < kept.iterations)
    said.unshift(
      `This file holds the outcomes of all ${kept.iterations} iterations, but the turns of ${kept.turns} only (its last, its first, ` +
        `and by halves in between), since the file should not exceed ${count(kept.limit)} bytes. \`--megabytes\` changes that.`,
    );
  if (kept && kept.tokens < kept.turns)
    said.unshift(`Sampled tokens of ${kept.tokens} of ${kept.turns} iterations with turns fit into this file.`);
  if (!said.length) return null;
  const shown = h("details", { class: "notes", open: said.length < 4 }, h("summary", {}, plural(said.length, "note")));
  shown.append(h("ul", {}, said.slice(0, 200).map((text) => h("li", {}, visible(text)))));
  return shown;
}

/** @param {Store} store @param {any[]} trained */
function curves(store, trained) {
  const last = store.run.steps ?? 0, parts = partsOf(store, trained);
  const { points, marks } = successOf(store, trained, "");
  /** @type {HTMLElement[]} */
  const shown = [], others = /** @type {HTMLElement[]} */ ([]);
  const about = "in training (line, 95 % Wilson band) and in evaluations (squares, 95 % intervals)";
  if (points.length || marks.length) shown.push(plot({ title: "Success", about, points, marks, share: true, last }));
  for (const part of parts) {
    const own = successOf(store, trained, `/${part}`);
    if (parts.length > 1 && (own.points.length || own.marks.length)) shown.push(plot({ title: `Success in ${part}`, about, ...own, share: true, last }));
  }
  const known = new Set([...CURVES, ...DRAWING].map(([key]) => key));
  const keys = new Set(trained.flatMap((event) => Object.keys(event)));
  const rest = [...keys].filter((key) => !known.has(key) && !HIDDEN.has(key) && !/^(episodes|errors|uncounted|success)\//.test(key)).sort();
  /** @type {[string, string, string, boolean][]} */
  const more = rest.map((key) => [key, key, "", false]);
  for (const [key, title, text, share] of [...CURVES, ...more]) {
    const found = trained.filter((e) => typeof e[key] === "number").map((e) => ({ x: e.iteration, y: e[key] }));
    if (found.length) (known.has(key) ? shown : others).push(plot({ title, about: text, points: found, share, last }));
  }
  if (!shown.length) return h("p", { class: "quiet" }, "There are no curves: no iteration has been reported.");
  return h(
    "section",
    {},
    h("h2", {}, "Curves"),
    h("p", { class: "quiet" }, `Success: ${about}. Point at a curve for its numbers.`),
    h("div", { class: "plots" }, shown),
    others.length > 0 && h("details", {}, h("summary", {}, plural(others.length, "further curve")), h("div", { class: "plots" }, others)),
    parts.length > 1 && partTable(store, trained, parts),
  );
}

/** Return the parts of a mixture of environments. @param {Store} store @param {any[]} trained @returns {string[]} */
function partsOf(store, trained) {
  const keys = new Set([...store.events("evaluation"), ...trained].flatMap((event) => Object.keys(event)));
  return [...keys].filter((key) => key.startsWith("success/")).map((key) => key.slice("success/".length));
}

/**
 * Return success in training with its band, and in evaluations.
 * @param {Store} store @param {any[]} trained @param {string} part "/" and the name of a part, or "" for the whole
 */
function successOf(store, trained, part) {
  const played = trained.filter((event) => typeof event[`success${part}`] === "number");
  const points = played.map((event) => {
    const y = event[`success${part}`], n = event[`episodes${part}`] - event[`errors${part}`] - (event[`uncounted${part}`] ?? 0), [low, high] = wilson(y * n, n);
    return { x: event.iteration, y, low, high, n };
  });
  const marks = store.events("evaluation").filter((e) => typeof e[`success${part}`] === "number" || !part)
    .map((e) => ({ x: e.iteration, y: e[`success${part}`], low: e[`low${part}`], high: e[`high${part}`], n: e[`n${part}`] }));
  return { points, marks };
}

/** @param {Store} store @param {any[]} trained @param {string[]} parts */
function partTable(store, trained, parts) {
  const rate = (/** @type {any} */ e, /** @type {string} */ part) => e ? `${withInterval({ value: e[`success/${part}`] ?? null, low: e[`low/${part}`], high: e[`high/${part}`] }, percent)} (n=${e[`n/${part}`] ?? 0})` : "–";
  const measured = store.events("evaluation"), first = measured[0], last = measured.length > 1 ? measured.at(-1) : undefined;
  const episodes = (/** @type {string} */ part) => trained.reduce((sum, e) => sum + (e[`episodes/${part}`] ?? 0), 0);
  return [h("h2", {}, "Parts"), table(["part", "episodes in training", "first evaluation, 95 % interval", "last evaluation, 95 % interval"],
    parts.map((part) => [line(part), count(episodes(part)), rate(first, part), rate(last, part)]), 1)];
}

/** @param {Store} store @param {any[]} trained */
function spent(store, trained) {
  const total = (/** @type {any[]} */ events, /** @type {string} */ key) => events.reduce((sum, e) => sum + (e[key] ?? 0), 0);
  const rollout = total(trained, "rollout_seconds"), update = total(trained, "update_seconds");
  const loads = total(trained, "load_seconds");
  const imitation = total(store.events("imitation"), "seconds"), evaluation = total(store.events("evaluation"), "seconds");
  /** @type {[string, number, string][]} */
  const times = [
    ["warm start", imitation, ""], ["rollouts", rollout, ""], ["updates", update, ""], ["loading weights", loads, ""],
    ["rest of the iterations", Math.max(0, total(trained, "seconds") - rollout - update - loads), ""], ["evaluations", evaluation, ""],
  ];
  const whole = times.reduce((sum, [, size]) => sum + size, 0), used = times.filter(([, size]) => size > 0.005 * whole);
  if (!used.length) return null;
  const tokens = [["sampled", total(trained, "tokens")], ["computed in updates", total(trained, "update_tokens")]];
  return h(
    "section",
    {},
    h("h2", {}, "Time and tokens"),
    bar(used.map(([key, size]) => [key, size, duration(size)])),
    h("p", { class: "quiet" }, "Tokens: ", tokens.map(([key, n]) => `${count(Number(n))} ${key}`).join(", ")),
    h("p", { class: "quiet" }, resources(store, trained)),
  );
}

/** Speed of sampling, parameters and memory in one line. @param {Store} store @param {any[]} trained */
function resources(store, trained) {
  const seconds = trained.reduce((sum, e) => sum + (e.rollout_seconds ?? 0), 0), model = store.events("model").at(-1);
  const sampled = trained.reduce((sum, e) => sum + (e.rollout_tokens_per_second ?? 0) * (e.rollout_seconds ?? 0), 0);
  const prompts = trained.reduce((sum, e) => sum + (e.prompt_tokens_per_second ?? 0) * (e.rollout_seconds ?? 0), 0);
  const most = (/** @type {string} */ key) => Math.max(0, ...trained.map((e) => e[key] ?? 0)) / 2 ** 30;
  const parts = [];
  if (model) parts.push(`Parameters: ${count(model.parameters)}, ${count(model.trained)} of them trained`);
  if (seconds && sampled) parts.push(`rollouts: ${count(Math.round(sampled / seconds))} sampled tokens per second, ${count(Math.round(prompts / seconds))} of prompts`);
  const known = trained.filter((e) => typeof e.mfu === "number"), time = known.reduce((sum, e) => sum + e.update_seconds, 0);
  if (time) parts.push(`updates: ${percent(known.reduce((sum, e) => sum + e.mfu * e.update_seconds, 0) / time)} of the device's peak (MFU)`);
  for (const [key, name] of [["process_memory", "memory of the process"], ["device_memory", "of its GPU"], ["device_used_memory", "of the GPU, all processes"]])
    if (most(key)) parts.push(`${name}: ${most(key).toFixed(1)} GiB`);
  return parts.join("; ");
}

/** @param {any} run */
function command(run) {
  if (!run.command) return null;
  return h("section", {}, h("h2", {}, "Command"), block(run.command, "command"),
    !run.recorded && h("p", { class: "quiet" }, "Nobody recorded the original command; this one does the same with the settings below."));
}

/** @param {any} run */
function settings(run) {
  if (!run.settings.length) return null;
  const row = (/** @type {string[]} */ [key, value, usual]) =>
    [h("code", {}, key), h("code", { class: value === usual ? "quiet" : "" }, line(value, 200)), usual === null ? "" : h("code", { class: "quiet" }, line(usual, 80))];
  const own = run.settings.filter((/** @type {any} */ r) => r[1] !== r[2]), same = run.settings.filter((/** @type {any} */ r) => r[1] === r[2]);
  return h(
    "section",
    {},
    h("h2", {}, "Settings"),
    table(["key", "value", "default"], own.map(row), 3),
    h("details", {}, h("summary", {}, `${same.length} settings at their defaults`), table(["key", "value"], same.map((/** @type {any} */ r) => row(r).slice(0, 2)), 2)),
  );
}

/** @param {any} run */
function versions(run) {
  const rows = Object.entries(run.versions).map(([key, value]) => [key, line(String(value))]);
  const credit = run.creditText.map((/** @type {string} */ text) => h("p", { class: "quiet" }, visible(text)));
  return h("section", {}, rows.length > 0 && [h("h2", {}, run.kind === "benchmark" ? "Versions and machine" : "Versions"), table(["", ""], rows, 2)], credit.length > 0 && [h("h2", {}, "Credit"), credit]);
}
