// Credit rules against the truth, where forks of the stored episodes were played.

const MEASURES = ["rank", "within", "sign", "leak", "error"];
const AGAINST = "against"; // the column of the differences in rank

/** @param {Store} store @param {number} number */
function truthPage(store, number) {
  const all = store.truths, truth = all.find((one) => one.number === number) ?? all.at(-1);
  if (!truth) return missing("No forks of these episodes were played; turncredit credit RUN --truth 8 plays them.");
  const label = store.label(truth.number), reached = truth.reliability === null ? "unknown" : plain(truth.reliability);
  return [
    h("h1", {}, `Credit against the truth: ${line(label, 60)}`),
    h("p", { class: "lead" }, `${count(truth.turns)} turns · ${count(truth.forks)} forks of ${count(truth.histories)} histories · reliability ${reached}`),
    all.length > 1 && h("div", { class: "filters" }, choice("iteration", all.map((one) => [String(one.number), store.label(one.number)]), String(truth.number), (value) => { location.hash = address(`#/truth/${value}`); })),
    h("p", { class: `verdict ${truth.enough ? "" : "poor"}` }, coded(truth.verdict)),
    h("p", { class: "quiet" }, `${percent(truth.density.significant)} of the turns have an advantage beyond two standard errors; the top tenth holds ${percent(truth.density.top_tenth)} of all |advantage|. The turns themselves are in `, h("a", { href: "#/groups" }, "Groups"), ": choose a group for its rules against the truth, turn by turn."),
    ranksOf(truth), scoresOf(truth),
    Object.entries(truth.same).map(([name, names]) => h("p", { class: "quiet" }, `The same as ${name} here, but for a positive factor: ${names.join(", ")}.`)),
    Object.entries(truth.leftOut).map(([name, reason]) => h("p", { class: "quiet" }, `${name} is left out: ${visible(reason)}`)),
  ].flat().filter(Boolean);
}

/** The rank of each rule on one axis. @param {Truth} truth */
function ranksOf(truth) {
  const ranked = truth.rules.filter((rule) => rule.scores.rank.value !== null), reference = ranked.find((rule) => rule.name === truth.reference);
  if (!ranked.length) return null;
  const ends = ranked.flatMap(({ scores: { rank } }) => [rank.value ?? 0, rank.low ?? 0, rank.high ?? 0, 0]);
  return [h("h2", {}, "Rank correlation with the truth"),
    intervals({ title: "rank correlation with the truth", low: Math.min(...ends), high: Math.max(...ends), format: fixed, reference: reference?.scores.rank.value ?? undefined,
      rows: ranked.map((rule) => ({ name: line(rule.name, 40), value: rule.scores.rank.value, low: rule.scores.rank.low, high: rule.scores.rank.high, said: withInterval(rule.scores.rank, fixed), kind: rule.name === truth.reference ? "base" : "" })) }),
    h("p", { class: "quiet" }, `1 is best. Bars: 95 % interval over tasks${reference ? `; the dotted line is ${truth.reference}` : ""}.`)];
}

/** Every measure, and its difference to the reference. @param {Truth} truth */
function scoresOf(truth) {
  const words = { reference: truth.reference }, keys = ["rule", "rank", "true", AGAINST, ...MEASURES.slice(1)];
  const cell = (/** @type {ScoredRule} */ rule, /** @type {string} */ name) => `${withInterval(rule.scores[name], fixed)}${rule.beyond.includes(name) && name !== "rank" ? " *" : ""}`;
  const further = `*: beyond the noise of the paired difference to ${truth.reference}, over all rules at once.`;
  const others = truth.rules.filter((rule) => rule.name !== truth.reference);
  return [h("h2", {}, "All measures"),
    stacked(table(heads("truth", keys, words), truth.rules.map((rule) => [line(rule.name, 40), cell(rule, "rank"), rule.true === null ? "–" : fixed(rule.true),
      rule.differences.rank ? withInterval(rule.differences.rank, more) : "–", ...MEASURES.slice(1).map((name) => cell(rule, name))]))),
    legendOf("truth", keys, words, further),
    others.length > 0 && [h("h2", {}, `Against ${line(truth.reference, 40)}`),
      h("p", { class: "quiet" }, "Differences of all measures, paired over the same draws of tasks, with 95 % intervals that hold for all rules at once."),
      stacked(table(["rule", ...heads("truth", MEASURES)], others.map((rule) => [line(rule.name, 40), ...MEASURES.map((name) => (rule.differences[name] ? withInterval(rule.differences[name], more) : "–"))]))),
      legendOf("truth", MEASURES)]].flat().filter(Boolean);
}

/** @param {number} value */
function fixed(value) {
  const text = Math.abs(value).toFixed(2);
  return value < 0 && Number(text) ? `−${text}` : text;
}

/** Return a difference with its sign. @param {number} value */
function more(value) {
  return `${value > 0 && Number(value.toFixed(2)) ? "+" : ""}${fixed(value)}`;
}
