// Search through the texts of all turns.

const HITS = 200; // results that are shown

/** @type {{word: string, type: string, outcome: string, mark: string}} */
const wanted = { word: "", type: "", outcome: "", mark: "" };
let searches = 0;

/** @param {Store} store @param {string} word */
function searchPage(store, word) {
  wanted.word = word;
  const list = h("ol", { class: "hits" }), said = h("p", { class: "quiet", role: "status" });
  const start = () => void search(store, list, said);
  const set = (/** @type {"type"|"outcome"|"mark"} */ key) => (/** @type {string} */ value) => { wanted[key] = value; start(); };
  const types = [...new Set(store.iterations.flatMap((one) => one.groups.map((group) => group.type)))].filter(Boolean).sort();
  start();
  return [
    h("h1", {}, "Search"),
    h("div", { class: "filters" },
      choice("task type", [["", "all"], ...types.map((type) => /** @type {[string, string]} */ ([type, type]))], wanted.type, set("type")),
      choice("episode", [["", "all"], ["1", "won"], ["0", "not won"], ["null", "failed"]], wanted.outcome, set("outcome")),
      choice("turn", [["", "all"], [".", "valid"], ["i", "not admissible"], ["u", "not parsable"]], wanted.mark, set("mark"))),
    said, list,
  ];
}

/** @param {Store} store @param {HTMLElement} list @param {HTMLElement} said */
async function search(store, list, said) {
  const mine = ++searches, word = wanted.word.toLowerCase();
  list.replaceChildren();
  let hits = 0, turns = 0;
  const held = store.iterations.filter((one) => store.has(one.number)).reverse();
  for (const [place, iteration] of held.entries()) {
    const chunk = await store.turns(iteration.number);
    if (mine !== searches || !said.isConnected) return;
    if (!chunk) continue;
    const fits = chunk.strings.map((text) => text.toLowerCase().includes(word));
    iteration.groups.forEach((group, index) => group.won.forEach((won, m) => {
      const member = chunk.groups[index]?.members[m];
      if (!member || (wanted.type && group.type !== wanted.type) || (wanted.outcome && String(won) !== wanted.outcome)) return;
      member.answer.forEach((_, t) => {
        turns += 1;
        if (wanted.mark && member.mark[t] !== wanted.mark) return;
        const found = [member.answer[t], member.observation[t]].find((text) => fits[text]);
        if (found === undefined) return;
        hits += 1;
        if (hits <= HITS) list.append(hit(chunk.strings[found], word, `${iteration.number}/${index}/${m}/${t}`, won));
      });
    }));
    said.textContent = `${count(hits)} of ${count(turns)} turns, ${place + 1} of ${held.length} iterations searched${hits > HITS ? `; the first ${HITS} are shown` : ""}`;
  }
  const absent = store.iterations.length - held.length;
  if (absent) said.textContent += `; the turns of ${absent} iterations are not in this file`;
}

/** @param {string} text @param {string} word @param {string} path @param {0|1|null} won */
function hit(text, word, path, won) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 60), [number, index, m, t] = path.split("/").map(Number);
  return h("li", {}, h("a", { href: `#/turn/${path}${word ? `?q=${encodeURIComponent(word)}` : ""}` },
    `iteration ${number}, group ${index + 1}, episode ${m + 1}, turn ${t + 1}`, h("small", {}, won === 1 ? " won" : won === 0 ? " not won" : " failed")),
    h("p", {}, marked((at ? "… " : "") + line(text.slice(at, at + 400), 240), word)));
}
