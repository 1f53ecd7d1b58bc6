// What was drawn for an iteration, how its groups grew, and which rule dropped them.

/** @type {[string, string, string][]} key of an iteration's numbers, title and explanation */
const DRAWING = [
  ["distinct_tasks", "Distinct tasks", "tasks that were drawn, dropped groups included"],
  ["sampled_turns", "Sampled turns", "turns of everything that was played, dropped groups included"],
  ["rounds", "Rounds", "mean number of rounds in which a group grew"],
  ["groups_dropped", "Dropped groups", "groups that a rule dropped, and that others replaced"],
  ["trained_episodes", "Episodes trained on", "finished episodes of the iteration that carry loss"],
  ["forks", "Forks", "episodes that began in the middle of others"],
  ["fork_success", "Success of forks", "share of them that won"],
  ["stored", "Stored episodes", "episodes in the experience"],
  ["replayed", "Replayed episodes", "stored episodes that were trained on again beside the iteration"],
  ["replay_age", "Age of replayed episodes", "mean number of iterations since they were played"],
  ["lessons", "Lessons", "in the library that groups are shown"],
  ["questions", "Questions", "that annotators asked a model, and that it answered"],
  ["questions_failed", "Questions without an answer", "of the annotators"],
  ["questions_cost", "Cost of the questions", "in the currency of the judge's prices"],
];

/** Curves of what was drawn. @param {any[]} trained @param {number} last */
function drawingCurves(trained, last) {
  const shown = DRAWING.flatMap(([key, title, about]) => {
    const points = trained.filter((e) => typeof e[key] === "number").map((e) => ({ x: e.iteration, y: e[key] }));
    return points.some((p) => p.y !== 0) ? [plot({ title, about, points, share: key === "fork_success", last })] : [];
  });
  return shown.length > 0 && h("section", {}, h("h2", {}, "What was drawn"),
    h("p", { class: "quiet" }, "How much was played for each iteration, and what the run remembers. A number beside a row of ", h("a", { href: "#/groups" }, "Groups"), " leads to the groups that were drawn for it."),
    h("div", { class: "plots" }, shown));
}

/** The groups that were drawn for an iteration. @param {Store} store @param {number} number */
function drawnPage(store, number) {
  const iteration = store.iteration(number), drawn = iteration?.drawn;
  if (!iteration || !drawn) return missing("Nobody wrote down what was drawn for this iteration.");
  const has = (/** @type {number} */ n) => Boolean(store.iteration(n)?.drawn);
  return [
    h("p", { class: "crumbs" }, h("a", { href: "#/groups", rel: "up" }, "Groups"), ` › ${line(store.label(number))}`, h("nav", { class: "around" },
      has(number - 1) && h("a", { href: `#/drawn/${number - 1}`, rel: "prev" }, "← previous"), has(number + 1) && h("a", { href: `#/drawn/${number + 1}`, rel: "next" }, "next →"))),
    h("h1", {}, `What was drawn for ${line(store.label(number))}`),
    h("p", { class: "quiet" }, drawnText(drawn)),
    numbersOf(store, number),
    drawnTable(number, drawn),
  ];
}

/** Return in words how many groups there are, and what became of them. @param {Drawn[]} drawn */
function drawnText(drawn) {
  const sum = (/** @type {(row: Drawn) => number} */ of) => drawn.reduce((total, row) => total + of(row), 0);
  /** @type {Map<string, number>} */
  const rules = new Map();
  for (const row of drawn) if (row.dropped !== null) rules.set(row.dropped, (rules.get(row.dropped) ?? 0) + 1);
  const dropped = sum((row) => Number(row.dropped !== null)), hinted = sum((row) => row.hinted), joined = sum((row) => row.replayed);
  const by = [...rules].map(([rule, n]) => `${line(rule || "a rule without a name", 60)} ${count(n)}`).join(", ");
  return [
    `${plural(drawn.length, "group")} of ${plural(new Set(drawn.map((row) => row.task)).size, "task")}, ${plural(sum((row) => row.played), "episode")}`,
    dropped && `${count(dropped)} dropped (${by})`, hinted && `${plural(hinted, "episode")} with a hint`, joined && `${plural(joined, "episode")} from experience`,
  ].filter(Boolean).join("; ") + ".";
}

/** The iteration's own numbers that are not zero; the text above has the others. @param {Store} store @param {number} number */
function numbersOf(store, number) {
  const event = store.events("train").find((one) => one.iteration === number) ?? {};
  const facts = DRAWING.filter(([key]) => typeof event[key] === "number" && event[key] !== 0 && !["distinct_tasks", "groups_dropped", "questions_cost"].includes(key)).map(([key, title]) => fact(title.toLowerCase(), key === "fork_success" ? percent(event[key]) : count(+event[key].toPrecision(4))));
  return facts.length > 0 && h("div", { class: "facts" }, facts);
}

/** A row for each group, with columns only for what some group has. @param {number} number @param {Drawn[]} drawn */
function drawnTable(number, drawn) {
  /** @type {[string, (row: Drawn) => Child, (row: Drawn) => boolean, boolean][]} title, cell, whether it is worth a column, whether it is text */
  const columns = [
    ["group", (row) => (row.group < 0 ? line(row.task, 70) : h("a", { href: `#/group/${number}/${row.group}` }, line(row.task, 70))), () => true, true],
    ["became", (row) => h("span", { class: "became" }, became(row)), () => true, true],
    ["size", (row) => (row.played === row.size ? row.size : `${row.size} → ${row.played}`), () => true, false],
    ["success", (row) => `${row.won} of ${row.finished}`, () => true, false],
    ["rounds", (row) => row.rounds, (row) => row.rounds !== 1, false],
    ["weight", (row) => (typeof row.weight === "number" ? plain(row.weight) : line(row.weight)), (row) => row.weight !== 1, false],
    ["hints", (row) => (row.hinted ? h("span", { title: row.hints.map((text) => line(text, 300)).join("\n") }, `${row.hinted} of ${row.played}`) : "–"), (row) => row.hinted > 0, false],
    ["from experience", (row) => row.replayed || "–", (row) => row.replayed > 0, false],
    ["drawn with", (row) => row.options !== null && h("code", {}, line(row.options, 200)), (row) => row.options !== null, true],
  ];
  const shown = columns.filter(([, , worth]) => drawn.some(worth)), texts = shown.filter(([, , , text]) => text);
  const order = [...texts, ...shown.filter(([, , , text]) => !text)];
  return table(order.map(([title]) => title), drawn.map((row) => order.map(([, cell]) => cell(row))), texts.length);
}

/** Return in words what became of a group. @param {Drawn} row */
function became(row) {
  if (row.dropped !== null) return h("span", { class: "poor" }, row.dropped ? `dropped by ${line(row.dropped, 60)}` : "dropped");
  const counted = row.counted ?? row.finished, kept = Math.min(row.kept ?? counted, counted);
  if (counted === row.finished && kept === counted) return "trained on";
  return counted === kept ? `trained on ${kept} of ${row.finished}` : `trained on ${kept} of ${row.finished}, ${counted} counted`;
}

/** What was drawn for a group, in one line above its episodes. @param {Store} store @param {number} number @param {number} index */
function drawnOf(store, number, index) {
  const rows = (store.iteration(number)?.drawn ?? []).filter((row) => row.group === index);
  return rows.map((row) => h("p", { class: "quiet" }, h("a", { href: `#/drawn/${number}` }, "drawn"), ": ", [
    row.played === row.size ? plural(row.size, "episode") : `${plural(row.played, "episode")} in place of ${row.size}`, row.rounds !== 1 && plural(row.rounds, "round"),
    row.weight !== 1 && `weight ${typeof row.weight === "number" ? plain(row.weight) : line(row.weight)}`, row.hinted > 0 && `${row.hinted} with a hint`,
    row.replayed > 0 && `${row.replayed} from experience count as well`, row.options && `with ${line(row.options, 200)}`].filter(Boolean).join(" · "), " · ", became(row),
    row.hints.map((text) => h("span", { class: "hint" }, line(text, 300)))));
}
