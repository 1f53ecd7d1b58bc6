// The results of a benchmark: its panels with intervals beside the baselines, and what they took.

const PANEL = ["panel", "n", "success", "interval", "score"]; // columns of the table of success
const EFFORTS = ["panel", "turns", "unparsable", "inadmissible", "truncated", "prompt_tokens", "response_tokens", "seconds", "cost"];

/** @param {Store} store */
function benchmarkPage(store) {
  const run = store.run, card = store.part("card"), panels = /** @type {any[]} */ (card.panels);
  const played = panels.filter((panel) => panel.success), names = /** @type {string[]} */ (card.others);
  const link = (/** @type {any} */ panel) => panel.number ? h("a", { href: `#/panel/${panel.number}` }, line(panel.name)) : line(panel.name);
  const [value, low, high] = card.mean ?? [];
  const rows = played.map((panel) => ({ name: link(panel), value: panel.success.value, low: panel.success.low, high: panel.success.high,
    marks: Object.fromEntries(Object.entries(panel.others).map(([name, rate]) => [name, /** @type {any} */ (rate).value]).filter(([, rate]) => rate !== null)),
    said: `${withInterval(panel.success, short)}` }));
  const mean = card.mean ? [{ name: `mean of ${card.played} panels`, value, low, high, said: withInterval({ value, low, high }, short), kind: "total" }] : [];
  const absent = panels.filter((panel) => !panel.success), faulty = played.filter((panel) => panel.errors > 0);
  const withShare = (/** @type {string} */ number, /** @type {number | null} */ share) => share !== null && share < 1 ? `${number} (${percent(share)} known)` : number;
  const episodes = played.reduce((sum, panel) => sum + panel.tasks, 0);
  return [
    h("h1", {}, line(run.name, 80)),
    h("p", { class: "lead" }, [run.env, run.finished ? "" : "not finished"].filter(Boolean).join(" · ")),
    h("div", { class: "facts" },
      card.mean && h("div", { class: "fact wide" }, h("span", {}, `mean success of ${card.played} panels`), h("b", {}, percent(value)), h("small", {}, `95 % interval ${percent(low)} – ${percent(high)}`)),
      fact("panels played", `${played.length} of ${panels.length}`), fact("episodes", count(episodes)),
      fact("time of play", duration(played.reduce((sum, panel) => sum + panel.seconds * panel.tasks, 0)))),
    notes(store),
    played.length === 0 ? missing("No panel has been played.") : [
      h("h2", {}, "Success"),
      h("p", { class: "quiet" }, "In per cent, with Wilson's 95 % interval; the mean of the panels is unweighted.", names.length ? ` The marks are those of ${names.join(", ")} on the same tasks.` : "", " A panel's name leads to its episodes."),
      intervals({ title: "success by panel", rows: [...rows, ...mean], low: 0, high: 1, format: short, names }),
      table([...heads("bench", PANEL), ...names], played.map((panel) => [
        link(panel), panel.success.n, percent(panel.success.value), `${percent(panel.success.low)} – ${percent(panel.success.high)}`, plain(panel.score),
        ...names.map((name) => (panel.others[name] ? percent(panel.others[name].value) : "–"))])),
      legendOf("bench", names.length ? [...PANEL, "others"] : PANEL, { others: names.join(", ") }),
      h("h2", {}, "Effort"),
      table(heads("effort", EFFORTS), played.map((panel) => [
        link(panel), plain(panel.turns), percent(panel.unparsable), percent(panel.inadmissible), percent(panel.truncated),
        ...["prompt_tokens", "response_tokens"].map((key) => (panel[key] === null ? "–" : withShare(count(Math.round(panel[key])), panel.counted))), plain(panel.seconds),
        panel.cost === null ? "–" : withShare(plain(panel.cost), panel.priced)])),
      legendOf("effort", EFFORTS),
    ],
    faulty.length > 0 && [h("h2", {}, "Errors"), h("p", { class: "quiet" }, "Episodes that ended as an error are in no rate and no mean."),
      table(["panel", "episodes", "why"], faulty.map((panel) => [link(panel), `${count(panel.errors)} of ${count(panel.tasks)}`, line(panel.error, 400)]), 3)],
    absent.length > 0 && [h("h2", {}, "Not played"), table(["panel", "why"], absent.map((panel) => [line(panel.name), `${panel.status === "unavailable" ? "not available" : "not playable by this player"}: ${line(panel.reason, 400)}`]), 2)],
    command(run),
    versions(run),
  ].flat().filter(Boolean);
}

/** The episodes of one panel as a list. @param {Store} store @param {number} number */
function panelPage(store, number) {
  const iteration = store.iteration(number);
  if (!iteration) return missing("This report has no such panel.");
  const place = h("div", {});
  const draw = () => {
    const rows = iteration.groups.flatMap((group, index) => (passes(group) ? group.won.map((won, m) => ({ group, index, won, m })) : []));
    put(place, h("p", { class: "quiet" }, `${count(rows.length)} of ${count(iteration.groups.length)} tasks`),
      table(["task", "type", "", "score", "turns", "ended as", "ending"], rows.slice(0, 1000).map(({ group, index, won, m }) => [
        h("a", { href: `#/turn/${number}/${index}/${m}/0` }, line(group.task, 70)), line(group.type), badgeOf(won), plain(group.reward[m]), group.turns[m], group.stop[m], h("code", {}, line(group.ending[m], 70))]), 3),
      rows.length > 1000 && h("p", { class: "quiet" }, "The first 1,000 are shown."));
  };
  draw();
  return [h("p", { class: "crumbs" }, h("a", { href: "#/", rel: "up" }, "Results"), ` › ${store.label(number)}`, h("nav", { class: "around" },
    store.iteration(number - 1) && h("a", { href: `#/panel/${number - 1}`, rel: "prev" }, "← previous"), store.iteration(number + 1) && h("a", { href: `#/panel/${number + 1}`, rel: "next" }, "next →"))),
    h("h1", {}, line(iteration.label)), filters(store, draw, [iteration]), place];
}
