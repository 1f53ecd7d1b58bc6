// One episode: its turns as cards, with advantages, the others in the same state, and tokens on request.

const CARDS = 60; // cards that are drawn at first

/** The cards of the episode that was drawn last, which stay when it is drawn anew. */
const span = { episode: "", begin: 0, end: 0 };

/** @param {Store} store @param {number} number @param {number} index @param {number} m @param {number} at @param {string} word */
async function trajectoryPage(store, number, index, m, at, word) {
  const iteration = store.iteration(number), group = iteration?.groups[index];
  const turns = group ? await store.turns(number, index) : null;
  const members = turns?.groups[index]?.members ?? [], member = members[m];
  if (!group || !turns || !member) return missing("This report does not hold the turns of this episode.");
  const path = `${number}/${index}`, rule = ruleOf(turns, store), most = extent(members, rule);
  const screens = await store.screens(number, index), shots = screens?.groups[index]?.[m], picture = (/** @type {number} */ t) => screenOf(screens, shots, t, member.credit[rule]?.value[t]);
  const view = { store, turns, members, member, m, rule, most, path, number, index, word, picture, won: group.won[m] };
  const cards = h("ol", { class: "cards" });
  const episode = `${store.prefix}${path}/${m}`, again = span.episode === episode && span.begin <= at && at < span.end;
  let begin = again ? span.begin : Math.max(0, Math.min(at, member.answer.length - 1) - CARDS / 2), end = begin;
  const more = h("p", {});
  const extend = () => {
    const from = end;
    end = Math.min(member.answer.length, again && from === begin ? Math.max(span.end, end + 1) : end + CARDS);
    for (let t = from; t < end; t++) cards.append(card(view, t));
    const earlier = () => { const old = begin; begin = Math.max(0, begin - CARDS); for (let t = old - 1; t >= begin; t--) cards.prepend(card(view, t)); links(); };
    const links = () => { Object.assign(span, { episode, begin, end }); more.replaceChildren(...[
      end < member.answer.length && h("button", { onclick: extend }, `show later turns (${member.answer.length - end})`),
      begin > 0 && h("button", { onclick: earlier }, `show earlier turns (${begin})`)].filter((one) => one !== false)); };
    links();
  };
  extend();
  const won = group.won[m], step = (/** @type {number} */ to, /** @type {string} */ text, /** @type {string} */ rel) =>
    to >= 0 && to < members.length && h("a", { href: `#/turn/${path}/${to}/0`, rel }, text);
  const other = (/** @type {number} */ to, /** @type {string} */ text, /** @type {string} */ rel) =>
    iteration?.groups[to] && h("a", { href: `#/turn/${number}/${to}/0/0`, rel }, text);
  return [
    h("p", { class: "crumbs" }, ...(members.length === 1 && store.run.kind === "benchmark"
      ? [h("a", { href: `#/panel/${number}`, rel: "up" }, line(store.label(number))), ` › task ${index + 1} of ${iteration?.groups.length}`,
        h("nav", { class: "around" }, other(index - 1, "← previous", "prev"), other(index + 1, "next →", "next"))]
      : [h("a", { href: "#/groups" }, "Groups"), " › ", h("a", { href: `#/group/${path}`, rel: "up" }, store.place(number, index)),
        ` › episode ${m + 1} of ${members.length}`, h("nav", { class: "around" }, step(m - 1, "← previous", "prev"), step(m + 1, "next →", "next"))])),
    h("h1", {}, badgeOf(won), " ", line(group.task, 90)),
    h("p", { class: "quiet" }, `${plural(member.answer.length, "turn")} · ended as ${group.stop[m]} · reward ${plain(group.reward[m])} · score ${plain(member.score)} · ${plain(member.seconds)} s · seed ${member.seed} · ${line(member.id, 200)}`),
    member.error && block(member.error, "error"),
    shots && h("p", { class: "quiet" }, shots.stored ? "The screens are the images that were stored with the turns. " : "The screens were drawn again by replaying the episode. ", visible(shots.note)),
    turns.rules.length > 0 && h("div", { class: "filters" },
      choice("advantage by", turns.rules.map((name) => [name, name]), rule, (value) => { chosen.rule = value; rerender(); }), scale(most), won !== 1 && lessBadKey()),
    h("div", { class: "mini" }, member.answer.slice(0, CELLS).map((_, t) => {
      const look = shade(member.credit[rule]?.value[t], most), mark = member.mark[t];
      return h("a", { class: `turn ${rule ? `${look.class} ${lessBad(won, member.credit[rule]?.value[t])}` : ""} ${mark === "i" ? "bad" : mark === "u" ? "unread" : ""}`, style: look.style, href: `#/turn/${path}/${m}/${t}`, "aria-label": `turn ${t + 1}` }, mark === "u" ? "?" : mark === "i" ? "×" : "");
    }), member.answer.length > CELLS && ` ${count(member.answer.length - CELLS)} more turns`),
    cards, more,
    h("section", { class: "card last" }, h("h3", {}, "After the last turn"), picture(member.answer.length),
      (turns.strings[member.final] || !member.images.includes("1")) ? block(turns.strings[member.final], "seen", word) : shots?.stored !== false && h("p", { class: "quiet" }, "An image is stored with each turn, but not what followed the last one.")),
  ];
}

/**
 * @typedef {{store: Store, turns: Turns, members: Member[], member: Member, m: number, rule: string, most: number,
 *   path: string, number: number, index: number, word: string, won: 0|1|null, picture: (t: number) => HTMLElement | null}} View
 */

/** The card of one turn. @param {View} view @param {number} t */
function card(view, t) {
  const { turns, member, rule, most, path, m, word } = view;
  const text = (/** @type {number} */ place) => turns.strings[place], answer = text(member.answer[t]);
  const screen = view.picture(t), seen = text(member.observation[t]);
  const thought = /<think>([\s\S]*?)<\/think>/.exec(answer)?.[1];
  const action = member.action[t] < 0 ? null : text(member.action[t]), mark = member.mark[t];
  const value = member.credit[rule]?.value[t], look = shade(value, most);
  const badges = [
    mark === "u" && "not parsable", mark === "i" && "not admissible", member.repeat[t] === "1" && "repeated",
    member.finish[t] && `answer ended: ${member.finish[t]}`, member.reward[t] && `reward ${plain(member.reward[t])}`,
    member.credit[rule]?.dropped.includes(t) && "dropped from the loss",
  ].filter(Boolean);
  return h("li", { class: `card ${look.class} ${lessBad(view.won, value)}`, style: look.style, id: `turn-${t}`, tabindex: "-1", "data-turn": t },
    h("header", {}, h("a", { href: `#/turn/${path}/${m}/${t}`, title: "link to this turn" }, `turn ${t + 1}`),
      badges.map((said) => h("span", { class: "badge" }, line(String(said)))),
      rule && h("span", { class: "credit" }, h("b", {}, signed(value)), h("small", {}, partsText(member, rule, t)))),
    h("h4", {}, "observed"), screen, !screen && member.images[t] === "1" && h("p", { class: "quiet" }, "an image that is not in this report"),
    (seen.trim() || (!screen && member.images[t] !== "1")) && block(seen, "seen", word),
    thought !== undefined && [h("h4", {}, "thought"), block(thought.trim(), "thought", word)],
    action !== null && [h("h4", {}, "done"), block(action, "done", word)],
    (action === null || answer.trim() !== action.trim()) && [h("h4", {}, "answered"), block(answer, "answer", word)],
    h("footer", {}, inState(view, t), otherRules(view, t), tokensOf(view, t), extras(member, t)));
}

/** Who else was in the state of a turn, and what they earned from there. @param {View} view @param {number} t */
function inState(view, t) {
  const { members, member, turns, path, rule } = view;
  const here = visitors(members, member.state[t]), episodes = new Set(here.map((one) => one.m)).size;
  if (here.length < 2) return members.length > 1 ? h("span", { class: "quiet" }, "nobody else was in this state") : null;
  return lazily(`${plural(here.length, "turn")} of ${plural(episodes, "episode")} in this state`, async () => [
    h("p", { class: "quiet" }, "From here on: the sum of rewards, undiscounted."),
    stacked(table(["turn", "what was done", "rewards from here", "advantage"], here.slice(0, 100).map((one) => [
      h("a", { href: `#/turn/${path}/${one.m}/${one.t}` }, `episode ${one.m + 1}, turn ${one.t + 1}`),
      line(did(turns, members[one.m], one.t), 80), plain(one.later), signed(members[one.m].credit[rule]?.value[one.t])]), 2)),
    here.length > 100 && h("p", { class: "quiet" }, `and ${here.length - 100} more`)]);
}

/** @param {View} view @param {number} t */
function otherRules({ turns, member }, t) {
  if (turns.rules.length < 2) return null;
  return lazily("other credit rules", async () => [table(["rule", "advantage", "parts"], turns.rules.map((rule) => [
    rule, signed(member.credit[rule]?.value[t]), partsText(member, rule, t)]))]);
}

/**
 * The screen before a turn, as it was stored or drawn again, with the touch of the turn and its advantage.
 * @param {Screens | null} screens @param {Shots | undefined} shots @param {number} t @param {number | null | undefined} value
 */
function screenOf(screens, shots, t, value) {
  const place = shots?.places[t], touch = shots?.touches[t] ?? [];
  if (!screens || !shots || place === undefined || place === null) return null;
  const percent = (/** @type {number} */ share) => `${100 * share}%`, [from, to] = touch;
  const words = !from ? "" : to ? "swipe" : "touch", said = [shots.stored ? "stored image" : "drawn again", words, typeof value === "number" && signed(value)].filter(Boolean).join(" · ");
  return h("figure", { class: "screen" }, h("div", {},
    h("img", { alt: `the screen before turn ${t + 1}${from ? `, with its ${words}` : ""}`, src: screens.images[place] }),
    from && to && svg("svg", { "aria-hidden": "true" }, ["under", "over"].map((name) => svg("line",
      { class: name, x1: percent(from[0]), y1: percent(from[1]), x2: percent(to[0]), y2: percent(to[1]) }))),
    touch.map(([x, y], end) => h("i", { class: end ? "touch end" : "touch", style: { left: percent(x), top: percent(y) } }))),
  h("figcaption", {}, said));
}

/** @param {View} view @param {number} t */
function tokensOf({ store, number, index, m, member, rule }, t) {
  return lazily("tokens", async () => {
    const chunk = await store.tokens(number, index), found = chunk?.groups[index]?.members[m];
    if (!chunk || !found) return [h("p", { class: "quiet" }, "The tokens of this iteration are not in this file.")];
    const ids = found.response[t], logprobs = found.logprob[t], cut = found.prompt[t] - found.same[t] - found.added[t].length;
    if (!ids.length) return [h("p", { class: "quiet" }, "The sampler gave no tokens.")];
    const text = (/** @type {number} */ id) => (chunk.pieces?.[id] === undefined ? String(id) : visible(chunk.pieces[id]).replace(/\n/g, "↵\n") || "∅");
    const out = member.credit[rule]?.dropped.includes(t), sum = logprobs.reduce((/** @type {number} */ total, one) => total + (one ?? 0), 0);
    return [
      h("p", { class: "quiet" }, `Prompt: ${count(found.prompt[t])} tokens${rule ? ", masked" : ""} (grey); ${count(found.same[t])} of them are as in the turn before and not shown. `,
        `Sampled: ${plural(ids.length, "token")}${member.credit[rule] ? (out ? ", which the rule drops from the loss" : ", which are trained") : ""}; the less likely the darker, ${plain(sum)} nats together. `,
        chunk.pieces ? "Point at a token for its id and log-probability." : "No tokenizer of the run was found, so these are ids, each with its log-probability (nats)."),
      h("div", { class: `tokens ${chunk.pieces ? "words" : "ids"}`, dir: "ltr" },
        found.same[t] > 0 && h("small", { class: "masked" }, `… ${count(found.same[t])} tokens …`),
        found.added[t].map((id) => h("span", { class: "masked", title: `masked: ${id}` }, text(id))),
        cut > 0 && h("small", { class: "masked" }, `… ${count(cut)} further tokens …`),
        ids.slice(0, 4000).map((id, place) =>
          h("span", { class: "trained", title: `${id}: ${logprobs[place] ?? "no log-probability"}`, style: { "--a": `${Math.min(100, -25 * (logprobs[place] ?? 0)).toFixed(0)}%` } }, text(id),
            !chunk.pieces && h("small", {}, logprobs[place] ?? "–")))),
    ];
  });
}

/** @param {Member} member @param {number} t */
function extras(member, t) {
  const found = member.extras[t];
  return found ? lazily("columns", async () => [table(["column", "value"], Object.entries(found).map(([key, value]) => [line(key), line(value, 300)]), 2)]) : null;
}

/** Return a summary whose content is made when it is opened. @param {string} title @param {() => Promise<Child[]>} make */
function lazily(title, make) {
  const box = h("details", {}, h("summary", {}, title));
  box.addEventListener("toggle", async () => {
    if (box.children.length === 1) box.append(h("div", {}, await make()));
  }, { once: true });
  return box;
}
