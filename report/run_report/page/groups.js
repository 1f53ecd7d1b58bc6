// Groups: the grid of iterations and tasks, and the strips of one group.

const CELLS = 400; // turns of an episode that strips show
const LINES = 200; // turns of one state that are linked
const ROWS = 150; // iterations that the grid shows at first
const TRUTH = "truth"; // what the true advantages are called among the rules
const COLUMNS = 60; // distinct tasks up to which a task that recurs has a column of its own

/** What the reader has chosen; it stays from page to page. */
const chosen = { type: "", outcome: "", stop: "", text: "", rule: "" };

/** @param {Group} group */
function wins(group) {
  return group.won.filter((won) => won === 1).length;
}

/** @param {Group} group */
function finished(group) {
  return group.won.filter((won) => won !== null).length;
}

/** Return whether a group passes the filters. @param {Group} group */
function passes(group) {
  const k = wins(group), n = finished(group);
  const outcome = {
    "": true, mixed: k > 0 && k < n, won: n > 0 && k === n, lost: n > 0 && k === 0, error: n < group.won.length,
  }[chosen.outcome];
  return (
    outcome === true &&
    (!chosen.type || group.type === chosen.type) &&
    (!chosen.stop || group.stop.includes(chosen.stop)) &&
    (!chosen.text || group.task.toLowerCase().includes(chosen.text.toLowerCase()))
  );
}

/** Return the filters as choices. @param {Store} store @param {() => void} changed @param {Iteration[]} [of] */
function filters(store, changed, of = store.iterations) {
  const groups = of.flatMap((one) => one.groups);
  const names = (/** @type {string[]} */ found) => [...new Set(found)].filter(Boolean).sort();
  const set = (/** @type {"type"|"outcome"|"stop"} */ key) => (/** @type {string} */ value) => { chosen[key] = value; changed(); };
  const types = names(groups.map((g) => g.type)), stops = names(groups.flatMap((g) => g.stop));
  const pairs = (/** @type {string[]} */ found) => /** @type {[string, string][]} */ (found.map((name) => [name, name]));
  return h(
    "div",
    { class: "filters" },
    types.length > 1 && choice("task type", [["", "all"], ...pairs(types)], chosen.type, set("type")),
    choice("outcome", [["", "all"], ["mixed", "wins and losses"], ["won", "all won"], ["lost", "none won"], ["error", "with errors"]], chosen.outcome, set("outcome")),
    choice("ended as", [["", "all"], ...pairs(stops)], chosen.stop, set("stop")),
    h("label", { class: "choice" }, h("span", {}, "task"), h("input", {
      type: "search", "aria-label": "task", value: chosen.text, placeholder: "part of its name",
      oninput: (/** @type {any} */ e) => { chosen.text = e.target.value; changed(); },
    })),
  );
}

/** The grid. @param {Store} store */
function groupsPage(store) {
  const place = h("div", {});
  let rows = ROWS;
  const draw = () => put(place, grid(store, rows, () => { rows += 5 * ROWS; draw(); }));
  draw();
  return [
    h("h1", {}, store.run.kind === "benchmark" ? "Episodes" : "Groups"),
    h("p", { class: "quiet" }, ...(store.run.kind === "benchmark" ? ["A row is a panel, a cell is the episode of one task."]
      : ["A row is an iteration, a cell is a group: the episodes of one task, coloured by how many of them succeeded. ", "A group in which all succeed or all fail teaches most rules nothing."])),
    filters(store, draw),
    place,
  ];
}

/** @param {Store} store @param {number} rows @param {() => void} more */
function grid(store, rows, more) {
  const iterations = store.iterations;
  if (!iterations.length) return [h("p", { class: "quiet" }, "No episodes are stored.")];
  const tasks = [...new Set(iterations.flatMap((one) => one.groups.map((group) => group.task)))].sort();
  const groups = iterations.reduce((sum, one) => sum + one.groups.length, 0);
  const once = iterations.every((one) => new Set(one.groups.map((group) => group.task)).size === one.groups.length);
  const fixed = once && store.run.kind !== "benchmark" && tasks.length <= COLUMNS && groups > 2 * tasks.length ? new Map(tasks.map((task, column) => [task, column])) : null;
  let shown = 0, all = 0;
  const newest = store.run.kind === "benchmark" ? iterations : iterations.slice(-rows).reverse();
  const lines = newest.map((one) => {
    const order = one.groups.map((group, index) => ({ group, index }));
    if (!fixed) order.sort((a, b) => (a.group.type < b.group.type ? -1 : a.group.type > b.group.type ? 1 : a.index - b.index));
    const cells = order.map(({ group, index }) => {
      const fits = passes(group), k = wins(group), n = finished(group);
      all += 1;
      shown += fits ? 1 : 0;
      return h(
        "a",
        {
          class: `cell ${fits ? "" : "out"} ${k > 0 && k < n ? "mixed" : ""} ${n < group.won.length ? "failed" : ""}`,
          href: group.won.length === 1 ? `#/turn/${one.number}/${index}/0/0` : `#/group/${one.number}/${index}`,
          title: `${store.label(one.number)}: ${line(group.task)}\n${k} of ${n} won${n < group.won.length ? `, ${group.won.length - n} failed` : ""}`,
          style: { "--s": `${n ? (100 * k) / n : 0}%`, ...(fixed ? { "grid-column": String((fixed.get(group.task) ?? 0) + 1), "grid-row": "1" } : {}) },
        },
        h("span", {}, group.won.length > 1 ? `${k}/${n}` : k ? "✓" : n ? "✗" : "!"),
      );
    });
    return h("div", { class: `row ${one.label ? "named" : ""}` }, h("b", { class: store.has(one.number) ? "" : "quiet", title: store.has(one.number) ? "" : "its turns are not in this file" }, one.label ? h("a", { href: `#/panel/${one.number}` }, line(one.label, 40)) : one.drawn ? h("a", { href: `#/drawn/${one.number}`, title: "what was drawn for it" }, one.number) : one.number), h("div", { class: "cells", style: fixed ? { "grid-template-columns": `repeat(${fixed.size}, minmax(40px, 1fr))` } : {} }, cells));
  });
  return [
    h("p", { class: "legend" }, h("span", {}, "none"), h("i", { class: "ramp" }), h("span", {}, "all won"), h("span", { class: "quiet" }, `${count(shown)} of ${count(all)} ${store.run.kind === "benchmark" ? "tasks" : "groups"}`)),
    h("div", { class: "grid" }, lines),
    iterations.length > rows && h("button", { onclick: more }, `show older iterations (${iterations.length - rows})`),
  ].filter(Boolean);
}

/** Return the rule whose advantages colour the turns. @param {Turns} turns @param {Store} store */
function ruleOf(turns, store) {
  if (turns.rules.includes(chosen.rule)) return chosen.rule;
  return turns.rules.includes(store.run.method) ? store.run.method : (turns.rules[0] ?? "");
}

/**
 * Return the rules to choose from; those that say the same of the turns of an iteration, as far as is known, are one.
 * @param {Turns} turns @param {Store} store @param {number} number of the iteration @param {string} rule the chosen one
 * @returns {[string, string][]}
 */
function ruleChoices(turns, store, number, rule) {
  const same = store.truths.find((one) => one.number === number)?.same ?? {}, also = new Set(Object.values(same).flat());
  return turns.rules.filter((name) => !also.has(name) || name === rule).map((name) => [name, same[name] ? `${name}, the same as ${same[name].join(", ")}` : name]);
}

/** Return the largest absolute advantage. @param {Member[]} members @param {string} rule */
function extent(members, rule) {
  let most = 0;
  for (const one of members) for (const value of one.credit[rule]?.value ?? []) most = Math.max(most, Math.abs(value ?? 0));
  return most;
}

/**
 * Return class and style of an advantage on the diverging scale: orange below zero, blue above.
 * @param {number | null | undefined} value @param {number} most
 */
function shade(value, most) {
  if (value === null || value === undefined || !most) return { class: "none", style: { "--a": "0%" } };
  return { class: value < 0 ? "minus" : "plus", style: { "--a": `${(100 * Math.min(1, Math.abs(value) / most) ** 0.7).toFixed(1)}%` } };
}

/** The strips of one group. @param {Store} store @param {number} number @param {number} index */
async function groupPage(store, number, index) {
  const iteration = store.iteration(number), group = iteration?.groups[index];
  if (!iteration || !group) return missing("This report has no such group.");
  const turns = await store.turns(number, index);
  const around = h("nav", { class: "around" },
    index > 0 && h("a", { href: `#/group/${number}/${index - 1}`, rel: "prev" }, "← previous"),
    index + 1 < iteration.groups.length && h("a", { href: `#/group/${number}/${index + 1}`, rel: "next" }, "next →"));
  const head = [
    h("p", { class: "crumbs" }, h("a", { href: "#/groups", rel: "up" }, "Groups"), " › ", iteration.drawn ? h("a", { href: `#/drawn/${number}` }, line(store.label(number))) : line(store.label(number)), ` › group ${index + 1} of ${iteration.groups.length}`, around),
    h("h1", {}, line(group.task, 100)),
    h("p", { class: "quiet" }, `${line(group.type)}${group.type ? " · " : ""}${wins(group)} of ${finished(group)} won`, turns ? [" · ", h("a", { href: `#/graph/${number}/${index}` }, "graph of its states")] : ""),
  ];
  head.push(...drawnOf(store, number, index));
  if (!turns) return [...head, ...missing("The turns of this iteration are not in this file: it keeps a stated selection.")];
  const members = turns.groups[index]?.members ?? [], place = h("div", {});
  const draw = () => put(place, strips(store, turns, members, group, `${number}/${index}`, draw));
  draw();
  const goal = members.find((one) => one.observation.length);
  return [...head, goal ? block(turns.strings[goal.observation[0]], "goal") : null, place, ...turns.notes.map((text) => h("p", { class: "quiet" }, visible(text)))];
}

/**
 * @param {Store} store @param {Turns} turns @param {Member[]} members @param {Group} group @param {string} path
 * @param {() => void} redraw
 */
function strips(store, turns, members, group, path, redraw) {
  const rule = ruleOf(turns, store), most = extent(members, rule);
  const beside = rule !== TRUTH && turns.rules.includes(TRUTH), widest = extent(members, TRUTH);
  const detail = h("div", { class: "detail", "aria-live": "polite" }, h("p", { class: "quiet" }, "Point at a turn: what was done, its advantage, and who else was in its state."));
  const lines = svg("svg", { class: "links", "aria-hidden": "true" });
  /** @type {Map<number, HTMLElement[]>} */
  const byState = new Map();
  const row = (/** @type {{m: number, depth: number}} */ { m, depth }) => {
    const member = members[m], taken = member.fork?.[1] ?? 0;
    const cells = member.answer.slice(0, CELLS).map((_, t) => {
      const value = member.credit[rule]?.value[t], look = shade(value, most), mark = member.mark[t];
      const cell = h("a", {
        class: `turn ${look.class} ${lessBad(group.won[m], value)} ${mark === "i" ? "bad" : mark === "u" ? "unread" : ""} ${t < taken ? "taken" : ""}`, style: look.style,
        href: `#/turn/${path}/${m}/${t}`,
        "aria-label": `turn ${t + 1}: ${line(did(turns, member, t), 60)}, advantage ${signed(value)}${t < taken ? ", taken over" : ""}`,
      }, mark === "u" ? "?" : mark === "i" ? "×" : "", beside && trueBar(member.credit[TRUTH]?.value[t], widest));
      const seen = () => { point(cell, byState.get(member.state[t]) ?? [], lines); detail.replaceChildren(...turnDetail(turns, members, m, t, rule)); };
      cell.addEventListener("pointerenter", seen);
      cell.addEventListener("focus", seen);
      byState.set(member.state[t], [...(byState.get(member.state[t]) ?? []), cell]);
      return cell;
    });
    const won = group.won[m], values = numbers(member.credit[rule]?.value.slice(taken));
    return h("div", { class: "strip", style: { "--depth": String(depth) } },
      h("a", { class: `who ${won === 1 ? "won" : won === 0 ? "lost" : "failed"}`, href: `#/turn/${path}/${m}/0`, title: member.fork ? `${member.id}\na fork of ${member.fork[0] < 0 ? "an episode that is not here" : `episode ${member.fork[0] + 1}`} at turn ${taken + 1}` : member.id }, member.fork && h("i", {}, "↳"), h("b", {}, won === 1 ? "✓" : won === 0 ? "✗" : "!"), ` ${m + 1}`),
      h("div", { class: "turns" }, cells, rest(member, `${path}/${m}`)),
      h("span", { class: "n quiet" }, h("b", { class: won === 1 ? "good" : "poor" }, won === 1 ? "won" : won === 0 ? "not won" : "failed"), ` · reward ${plain(group.reward[m])} · `, h("span", { class: "wide-only" }, `ended as ${group.stop[m]} · `), values.length ? `mean advantage ${signed(mean(values))}` : group.won[m] === null ? "failed: no advantage" : turns.rules.length > 0 && (store.iteration(Number.parseInt(path))?.drawn ? "not counted" : "no advantage")));
  };
  const forked = members.some((member) => member.fork);
  const board = h("div", { class: forked ? "strips forest" : "strips", onpointerleave: () => point(null, [], lines) }, lines, forest(members).map(row));
  return [
    h("div", { class: "filters" },
      turns.rules.length > 0 && choice("coloured by", ruleChoices(turns, store, Number.parseInt(path), rule), rule, (value) => { chosen.rule = value; redraw(); }),
      scale(most), lessBadKey(), h("span", { class: "key" }, h("i", { class: "turn none bad" }, "×"), "not admissible"), h("span", { class: "key" }, h("i", { class: "turn none unread" }, "?"), "not parsable"),
      beside && h("span", { class: "key" }, h("i", { class: "turn none" }, h("i", { class: "true plus", style: { "--a": "100%" } })), `below: the truth, to ±${plain(widest)}`),
      forked && h("span", { class: "key" }, h("i", { class: "turn none taken" }), "taken over by a fork")),
    rule && !wins(group) && finished(group) > 0 && h("p", { class: "warned" }, "No episode of this group was won. A turn above zero was less bad than those of the others, not good."),
    board, detail, decisive(turns, members, group, rule, path), against(turns, members, rule, path),
  ].filter(Boolean);
}

/** Return the class of an advantage above zero in an episode that was not won. @param {0|1|null} won @param {number | null | undefined} value */
function lessBad(won, value) {
  return won !== 1 && (value ?? 0) > 0 ? "less" : "";
}

function lessBadKey() {
  return h("span", { class: "key" }, h("i", { class: "turn plus less", style: { "--a": "100%" } }), "above the group, in an episode that was not won");
}

/** Return a bar in the colour of a true advantage. @param {number | null | undefined} value @param {number} most */
function trueBar(value, most) {
  const look = shade(value, most);
  return h("i", { class: `true ${look.class}`, style: look.style });
}

/** Return the members with their depth, each followed by its forks. @param {Member[]} members */
function forest(members) {
  /** @type {{m: number, depth: number}[]} */
  const order = [];
  const add = (/** @type {number} */ m, /** @type {number} */ depth) => {
    order.push({ m, depth });
    members.forEach((one, child) => { if (one.fork?.[0] === m && child !== m) add(child, depth + 1); });
  };
  members.forEach((one, m) => { if (!one.fork || one.fork[0] < 0) add(m, one.fork ? 1 : 0); });
  return order;
}

/** Return the values that are known. @param {(number | null)[] | undefined} values @returns {number[]} */
function numbers(values) {
  return (values ?? []).filter((value) => value !== null);
}

/** A rule's credit beside the truth, turn by turn. @param {Turns} turns @param {Member[]} members @param {string} rule @param {string} path */
function against(turns, members, rule, path) {
  if (!turns.rules.includes(TRUTH)) return null;
  const shown = rule === TRUTH ? (turns.rules.find((name) => name !== TRUTH) ?? "") : rule;
  const points = members.flatMap((member, m) => (member.credit[shown]?.value ?? []).flatMap((x, t) => {
    const y = member.credit[TRUTH]?.value[t], error = member.credit[TRUTH]?.parts["standard error"]?.[t] ?? null;
    if (x === null || y === null || y === undefined || error === null) return [];
    const text = `episode ${m + 1}, turn ${t + 1}: ${line(did(turns, member, t), 80)}\n${shown} ${signed(x)}, truth ${signed(y)} ± ${plain(2 * error)}`;
    return [{ x, y, low: y - 2 * error, high: y + 2 * error, text, href: `#/turn/${path}/${m}/${t}` }];
  }));
  if (!points.length) return null;
  return h("section", {}, h("h2", {}, `${shown} against the truth`),
    h("p", { class: "quiet" }, `Each dot is a turn; its bar is the true advantage with two standard errors. Across: what ${shown} says. Dots at the upper right and the lower left agree.`),
    h("div", { class: "plots wide" }, scatter(`advantage by ${shown}`, "true advantage", points)));
}

/** Return a link to the turns that a strip does not show. @param {Member} member @param {string} path */
function rest(member, path) {
  const more = member.answer.length - CELLS;
  return more > 0 && h("a", { href: `#/turn/${path}/${CELLS}` }, `${count(more)} more turns`);
}

/** @param {number} most */
function scale(most) {
  return h("span", { class: "legend", title: "not whether the episode was won: its outcome stands beside it" }, h("span", {}, "advantage, relative to the group:"), h("span", {}, `${signed(-most)} less likely`), h("i", { class: "diverging" }), h("span", {}, `${signed(most)} more likely`));
}

/** Return what was done in a turn. @param {Turns} turns @param {Member} member @param {number} t */
function did(turns, member, t) {
  return turns.strings[member.action[t] < 0 ? member.answer[t] : member.action[t]];
}

/** Mark the turns of one state, and draw lines between them. @param {Element | null} cell @param {Element[]} same @param {SVGElement} lines */
function point(cell, same, lines) {
  const board = lines.parentElement;
  board?.querySelectorAll(".same").forEach((one) => one.classList.remove("same"));
  lines.replaceChildren();
  if (!cell || !board || same.length < 2) return;
  const box = board.getBoundingClientRect();
  const middle = (/** @type {Element} */ one) => { const r = one.getBoundingClientRect(); return [r.left + r.width / 2 - box.left, r.top + r.height / 2 - box.top]; };
  const [x, y] = middle(cell);
  for (const other of same.slice(0, LINES)) {
    other.classList.add("same");
    if (other === cell) continue;
    const [a, b] = middle(other);
    lines.append(svg("line", { x1: x, y1: y, x2: a, y2: b }));
  }
}

/** @param {Turns} turns @param {Member[]} members @param {number} m @param {number} t @param {string} rule */
function turnDetail(turns, members, m, t, rule) {
  const member = members[m], here = visitors(members, member.state[t]);
  const others = new Set(here.map((one) => one.m)).size;
  return [
    h("p", {}, h("b", {}, `episode ${m + 1}, turn ${t + 1}: `), line(did(turns, member, t), 160)),
    h("p", {}, h("b", { class: "value" }, signed(member.credit[rule]?.value[t])), partsText(member, rule, t)),
    h("p", { class: "quiet" }, others > 1 ? `${here.length} turns of ${others} episodes began in this state` : "no other episode was in this state"),
  ];
}

/** @param {Member} member @param {string} rule @param {number} t */
function partsText(member, rule, t) {
  const parts = Object.entries(member.credit[rule]?.parts ?? {}).map(([name, values]) => `${name} ${signed(values[t])}`);
  return parts.length ? `  ${parts.join(" · ")}` : "";
}

/** Return the turns that began in a state, with the rewards that followed. @param {Member[]} members @param {number} state */
function visitors(members, state) {
  return members.flatMap((member, m) => member.state.flatMap((one, t) =>
    one === state ? [{ m, t, later: member.reward.slice(t).reduce((sum, reward) => sum + reward, 0) }] : []));
}

/**
 * The turns whose advantage differs most from that of their episode.
 * @param {Turns} turns @param {Member[]} members @param {Group} group @param {string} rule @param {string} path
 */
function decisive(turns, members, group, rule, path) {
  const found = members.flatMap((member, m) => {
    const values = member.credit[rule]?.value ?? [], middle = mean(numbers(values));
    return values.flatMap((value, t) => value === null ? [] : [{ m, t, value, own: value - middle }]);
  }).filter((one) => Math.abs(one.own) > 1e-6).sort((a, b) => Math.abs(b.own) - Math.abs(a.own)).slice(0, 8);
  if (!found.length) return h("p", { class: "quiet" }, "All turns of an episode have the same advantage here: no single turn was judged.");
  const keys = ["place", "outcome", "done", "advantage", "own"];
  return h("section", {}, h("h2", {}, "Turns that stand out"),
    stacked(table(heads("decisive", keys), found.map(({ m, t, value, own }) => [
      h("a", { href: `#/turn/${path}/${m}/${t}` }, `episode ${m + 1}, turn ${t + 1}`), badgeOf(group.won[m]), line(did(turns, members[m], t), 90), signed(value), signed(own)]), 3)),
    legendOf("decisive", keys));
}

/** @param {string} text */
function missing(text) {
  return [h("p", { class: "missing" }, text)];
}
