// How episodes without success end, counted by their endings.

const failing = { type: "", stop: "", from: "all", run: "" };

/** @param {Store} store */
function failuresPage(store) {
  const place = h("div", {});
  const draw = () => put(place, failures(store, draw));
  draw();
  return [h("h1", {}, "Failures"),
    h("p", { class: "quiet" }, "Episodes without success, by how they ended. The first that applies: an error; the last three answers could not be parsed; ",
      "at least three of the last eight turns repeat an earlier action in the same state (a loop); the last three actions were not admissible; else the last action. “#” stands for any number."), place];
}

/** @param {Store} store @param {() => void} redraw */
function failures(store, redraw) {
  const runs = store.runs, panels = store.run.kind === "benchmark", arm = (/** @type {Store} */ one) => String(store.part("results")?.runs[Number.parseInt(one.prefix)]?.arm ?? "");
  const part = runs.filter((run) => !failing.run || arm(run) === failing.run).flatMap((run) => {
    const all = run.iterations, quarter = Math.ceil(all.length / 4);
    const kept = panels ? all.filter((one) => failing.from === "all" || one.label === failing.from) : failing.from === "last" ? all.slice(-quarter) : failing.from === "first" ? all.slice(0, quarter) : all;
    return kept.map((one) => ({ one, run }));
  });
  /** @type {Map<string, {ending: string, stop: string, places: string[], count: number, turns: number}>} */
  const found = new Map();
  const types = new Set(), stops = new Set();
  let episodes = 0, lost = 0;
  for (const { one, run } of part) one.groups.forEach((group, index) => {
    types.add(group.type);
    group.won.forEach((_, m) => {
      stops.add(group.stop[m]);
      if ((failing.type && group.type !== failing.type) || (failing.stop && group.stop[m] !== failing.stop)) return;
      episodes += 1;
      const ending = group.ending[m];
      if (!ending) return;
      lost += 1;
      const key = `${group.stop[m]}\n${ending}`;
      const entry = found.get(key) ?? { ending, stop: group.stop[m], places: [], count: 0, turns: 0 };
      entry.count += 1;
      entry.turns += group.turns[m];
      if (entry.places.length < 5) entry.places.push(`#//${run.prefix ? `run/${run.prefix.slice(0, -1)}/` : scope.path}turn/${one.number}/${index}/${m}/${Math.max(0, group.turns[m] - 1)}`);
      found.set(key, entry);
    });
  });
  const rows = [...found.values()].sort((a, b) => b.count - a.count);
  const set = (/** @type {"type"|"stop"|"from"|"run"} */ key) => (/** @type {string} */ value) => { failing[key] = value; redraw(); };
  const pairs = (/** @type {Set<any>} */ names) => /** @type {[string, string][]} */ ([...names].filter(Boolean).sort().map((name) => [name, name]));
  const groups = new Map();
  for (const row of rows) { const kind = row.ending.split(":")[0]; groups.set(kind, (groups.get(kind) ?? 0) + row.count); }
  const kinds = [...groups].sort((a, b) => b[1] - a[1]);
  return [
    h("div", { class: "filters" },
      runs.length > 1 && choice("arm", [["", "all"], ...pairs(new Set(runs.map(arm)))], failing.run, set("run")),
      panels ? choice("panel", [["all", "all"], ...pairs(new Set(store.iterations.map((one) => one.label)))], failing.from, set("from"))
        : choice("iterations", [["all", "all"], ["first", "first quarter"], ["last", "last quarter"]], failing.from, set("from")),
      choice("task type", [["", "all"], ...pairs(types)], failing.type, set("type")),
      choice("ended as", [["", "all"], ...pairs(stops)], failing.stop, set("stop")),
      h("span", { class: "quiet" }, `${count(lost)} of ${count(episodes)} episodes without success`)),
    kinds.length > 0 && bar(kinds.slice(0, 6).map(([key, n]) => [key, n, count(n)])),
    rows.length ? table(["ending", "ended as", "episodes", "share", "mean turns", "examples"], rows.slice(0, 100).map((row) => [
      h("code", {}, line(row.ending, 110)), row.stop, count(row.count), percent(row.count / lost), plain(row.turns / row.count),
      row.places.map((place, k) => h("a", { class: "example", href: place }, k + 1))]), 2) : h("p", { class: "missing" }, "No episode failed here."),
    rows.length > 100 && h("p", { class: "quiet" }, `and ${rows.length - 100} rarer endings`),
  ].filter(Boolean);
}
