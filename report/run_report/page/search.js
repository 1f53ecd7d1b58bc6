// Search through the texts of all turns.

const HITS = 200; // results that are shown

/** @type {{word: string, type: string, outcome: string, mark: string, stop: string, from: string}} */
const wanted = { word: "", type: "", outcome: "", mark: "", stop: "", from: "" };
let searches = 0;

/** @param {Store} store @param {string} word */
function searchPage(store, word) {
  wanted.word = word;
  const list = h("ol", { class: "hits" }), said = h("p", { class: "quiet", role: "status" });
  const start = () => void search(store, list, said);
  const set = (/** @type {"type"|"outcome"|"mark"|"stop"|"from"} */ key) => (/** @type {string} */ value) => { wanted[key] = value; start(); };
  const groups = store.runs.flatMap((run) => run.iterations.flatMap((one) => one.groups)), pairs = (/** @type {string[]} */ names) => [...new Set(names)].filter(Boolean).sort().map((name) => /** @type {[string, string]} */ ([name, name]));
  const places = pairs(store.run.kind === "ablation" ? store.runs.map((run) => run.run.name) : store.iterations.map((one) => one.label));
  start();
  return [
    h("h1", {}, "Search"),
    h("div", { class: "filters" },
      places.length > 1 && choice(store.run.kind === "ablation" ? "run" : "panel", [["", "all"], ...places], wanted.from, set("from")),
      choice("task type", [["", "all"], ...pairs(groups.map((group) => group.type))], wanted.type, set("type")),
      choice("episode", [["", "all"], ["1", "won"], ["0", "not won"], ["null", "failed"]], wanted.outcome, set("outcome")),
      choice("ended as", [["", "all"], ...pairs(groups.flatMap((group) => group.stop))], wanted.stop, set("stop")),
      choice("turn", [["", "all"], [".", "valid"], ["i", "not admissible"], ["u", "not parsable"]], wanted.mark, set("mark"))),
    said, list,
  ];
}

/** @param {Store} store @param {HTMLElement} list @param {HTMLElement} said */
async function search(store, list, said) {
  const mine = ++searches, word = wanted.word.toLowerCase();
  list.replaceChildren();
  let hits = 0, turns = 0;
  const all = store.runs.flatMap((run) => run.iterations.filter((one) => !wanted.from || one.label === wanted.from || run.run.name === wanted.from).reverse().map((iteration) => ({ run, iteration })));
  const held = all.filter(({ run, iteration }) => run.has(iteration.number));
  for (const [place, { run, iteration }] of held.entries()) {
    const chunk = await run.turns(iteration.number);
    if (mine !== searches || !said.isConnected) return;
    if (!chunk) continue;
    const fits = chunk.strings.map((text) => text.toLowerCase().includes(word));
    iteration.groups.forEach((group, index) => group.won.forEach((won, m) => {
      const member = chunk.groups[index]?.members[m];
      if (!member || (wanted.stop && group.stop[m] !== wanted.stop) || (wanted.type && group.type !== wanted.type) || (wanted.outcome && String(won) !== wanted.outcome)) return;
      member.answer.forEach((_, t) => {
        turns += 1;
        if (wanted.mark && member.mark[t] !== wanted.mark) return;
        const found = [member.answer[t], member.observation[t]].find((text) => fits[text]);
        if (found === undefined) return;
        hits += 1;
        if (hits <= HITS) list.append(hit(run, chunk.strings[found], word, [iteration.number, index, m, t], won));
      });
    }));
    said.textContent = `${count(hits)} of ${count(turns)} turns, ${place + 1} of ${held.length} ${store.run.kind === "benchmark" ? "panels" : "iterations"} searched${hits > HITS ? `; the first ${HITS} are shown` : ""}`;
  }
  const absent = all.length - held.length;
  if (absent) said.textContent += `; the turns of ${absent} iterations are not in this file`;
}

/** @param {Store} run @param {string} text @param {string} word @param {number[]} place @param {0|1|null} won */
function hit(run, text, word, [number, index, m, t], won) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 60), path = `${run.prefix ? `run/${run.prefix.slice(0, -1)}/` : ""}turn/${number}/${index}/${m}/${t}`;
  const alone = run.iteration(number)?.groups[index].won.length === 1;
  return h("li", {}, h("a", { href: `#//${path}${word ? `?q=${encodeURIComponent(word)}` : ""}` },
    `${scope.path || !run.prefix ? "" : `${line(run.run.name, 60)}, `}${run.place(number, index)}${alone ? "" : `, episode ${m + 1}`}, turn ${t + 1}`, h("small", {}, won === 1 ? " won" : won === 0 ? " not won" : " failed")),
    h("p", {}, marked((at ? "… " : "") + line(text.slice(at, at + 400), 240), word)));
}
