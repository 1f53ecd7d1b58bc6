// The graph of a group: states from the start (left) to the end, steps between them coloured by their mean advantage.

/**
 * @typedef {{text: string, visits: number, episodes: Set<number>, wins: Set<number>, folded: number, stays: number,
 *   depth: number, order: number, x: number, y: number, end: string}} GraphNode
 * @typedef {{from: GraphNode, to: GraphNode, actions: Map<string, number>, count: number, episodes: Set<number>,
 *   wins: Set<number>, sums: Record<string, number>}} GraphEdge
 */

const NODES = 300; // states up to which a graph is drawn
const BOX = 138, TALL = 40, GAP_X = 96, GAP_Y = 16;

/** @param {Store} store @param {number} number @param {number} index */
async function graphPage(store, number, index) {
  const group = store.iteration(number)?.groups[index], turns = group ? await store.turns(number, index) : null;
  if (!group || !turns) return missing("This report does not hold the turns of this group.");
  const members = turns.groups[index]?.members ?? [], { nodes, edges } = graphOf(turns, members, group);
  if (nodes.length > NODES)
    return missing(`This group has ${count(nodes.length)} states to draw; the graph shows up to ${NODES}. \`turncredit credit\` draws larger ones.`);
  const again = store.iterations.flatMap((one) => one.groups.flatMap((other, place) => (other.task === group.task ? [{ n: one.number, place, other }] : [])));
  return [
    h("p", { class: "crumbs" }, h("a", { href: "#/groups" }, "Groups"), " › ", h("a", { href: `#/group/${number}/${index}`, rel: "up" }, store.place(number, index)), " › graph"),
    h("h1", {}, line(group.task, 100)),
    h("p", { class: "quiet" }, "States from the start (left) to the end. Steps are as wide as they are frequent, and coloured by their mean advantage. ",
      "States that only one episode saw, on no way to a success, are folded; turns that stay in their state are counted in its box. Point at a box or a step for details."),
    again.length > 1 && h("p", {}, "The same task: ", again.map((one) => [h("a", { class: one.n === number && one.place === index ? "badge" : "", href: `#/graph/${one.n}/${one.place}` }, `iteration ${one.n} (${wins(one.other)}/${finished(one.other)})`), " "])),
    together(h("div", { class: "graphs", style: { "--w": `${Math.max(...nodes.map((node) => node.x), 0) + BOX + 44}px` } }, (turns.rules.length ? turns.rules : [""]).map((rule) => {
      const most = Math.max(0, ...edges.map((edge) => Math.abs((edge.sums[rule] ?? 0) / edge.count)));
      return h("section", { class: "graph" }, h("h2", {}, rule || "without advantages", " ", rule && scale(most)), h("div", { class: "scroll", tabindex: "0" }, picture(nodes, edges, rule, most)));
    }))),
  ].flat(2);
}

/** Scroll the pictures in a box together, so that they show the same states. @param {HTMLElement} box */
function together(box) {
  const all = [...box.querySelectorAll(".scroll")];
  for (const one of all) one.addEventListener("scroll", () => all.forEach((other) => {
    if (other !== one && (other.scrollLeft !== one.scrollLeft || other.scrollTop !== one.scrollTop)) other.scrollTo(one.scrollLeft, one.scrollTop);
  }));
  return box;
}

/** @param {Turns} turns @param {Member[]} members @param {Group} group */
function graphOf(turns, members, group) {
  const seenBy = /** @type {Map<number, Set<number>>} */ (new Map()), winning = new Set();
  members.forEach((member, m) => member.state.forEach((state) => {
    seenBy.set(state, (seenBy.get(state) ?? new Set()).add(m));
    if (group.won[m] === 1) winning.add(state);
  }));
  /** @type {Map<string, GraphNode>} */
  const nodes = new Map();
  /** @type {Map<string, GraphEdge>} */
  const edges = new Map();
  const visit = (/** @type {string} */ key, /** @type {string} */ text, /** @type {number} */ m, end = "") => {
    /** @type {GraphNode} */
    const node = nodes.get(key) ?? { text, visits: 0, episodes: new Set(), wins: new Set(), folded: 0, stays: 0, depth: Infinity, order: 0, x: 0, y: 0, end };
    node.visits += 1;
    node.episodes.add(m);
    if (group.won[m] === 1) node.wins.add(m);
    nodes.set(key, node);
    return node;
  };
  members.forEach((member, m) => {
    if (group.won[m] === null || !member.state.length) return;
    const lone = (/** @type {number} */ t) => t > 0 && (seenBy.get(member.state[t])?.size ?? 0) < 2 && !winning.has(member.state[t]);
    /** @type {GraphNode | null} */
    let before = null;
    let fold = "";
    for (let t = 0; t <= member.state.length; t++) {
      const over = t === member.state.length;
      fold = !over && lone(t) ? fold || `fold ${m} ${t}` : "";
      const key = over ? `end ${group.won[m]}` : fold || `state ${member.state[t]}`;
      const text = over ? (group.won[m] === 1 ? "success" : "no success") : fold ? "states of one episode" : turns.strings[member.observation[t]];
      const here = visit(key, text, m, over ? (group.won[m] === 1 ? "won" : "lost") : "");
      if (fold) here.folded += 1;
      if (before === here) here.stays += 1;
      else if (before) connect(edges, before, here, turns, member, m, t - 1, group.won[m] === 1);
      before = here;
    }
  });
  const all = [...nodes.values()], steps = [...edges.values()];
  if (all.length <= NODES) arrange(all, steps);
  return { nodes: all, edges: steps };
}

/** Count one step. @param {Map<string, GraphEdge>} edges @param {GraphNode} from @param {GraphNode} to @param {Turns} turns @param {Member} member @param {number} m @param {number} t @param {boolean} won */
function connect(edges, from, to, turns, member, m, t, won) {
  from.order ||= edges.size + 1;
  to.order ||= edges.size + 2;
  const key = `${from.order} ${to.order}`;
  /** @type {GraphEdge} */
  const edge = edges.get(key) ?? { from, to, actions: new Map(), count: 0, episodes: new Set(), wins: new Set(), sums: {} };
  const action = did(turns, member, t);
  edge.actions.set(action, (edge.actions.get(action) ?? 0) + 1);
  edge.count += 1;
  edge.episodes.add(m);
  if (won) edge.wins.add(m);
  for (const [rule, credit] of Object.entries(member.credit)) edge.sums[rule] = (edge.sums[rule] ?? 0) + (credit.value[t] ?? 0);
  edges.set(key, edge);
}

/** Give every node its place: columns by the distance from the start, rows near those that lead there. @param {GraphNode[]} nodes @param {GraphEdge[]} edges */
function arrange(nodes, edges) {
  if (nodes.length) nodes[0].depth = 0;
  for (let frontier = nodes.slice(0, 1); frontier.length; ) {
    const next = [];
    for (const edge of edges) if (frontier.includes(edge.from) && edge.to.depth === Infinity) { edge.to.depth = edge.from.depth + 1; next.push(edge.to); }
    frontier = next;
  }
  const last = Math.max(0, ...nodes.filter((n) => n.depth < Infinity && !n.end).map((n) => n.depth)) + 1;
  for (const node of nodes) if (node.end || node.depth === Infinity) node.depth = last;
  for (let sweep = 0; sweep < 4; sweep++)
    for (let depth = 0; depth <= last; depth++) {
      const column = nodes.filter((node) => node.depth === depth);
      const middle = (/** @type {GraphNode} */ node) => {
        const near = edges.filter((e) => e.to === node || e.from === node).map((e) => (e.to === node ? e.from : e.to)).filter((n) => n.depth < depth || sweep > 0);
        return near.length ? mean(near.map((n) => n.y)) : node.y;
      };
      const wanted = new Map(column.map((node) => [node, middle(node)]));
      column.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
      column.forEach((node, row) => { node.x = depth * (BOX + GAP_X); node.y = (row - (column.length - 1) / 2) * (TALL + GAP_Y); });
    }
  const top = Math.min(0, ...nodes.map((node) => node.y));
  for (const node of nodes) node.y += 34 - top;
}

/** @param {GraphNode[]} nodes @param {GraphEdge[]} edges @param {string} rule @param {number} most */
function picture(nodes, edges, rule, most) {
  const wide = Math.max(...nodes.map((node) => node.x), 0) + BOX + 20, high = Math.max(...nodes.map((node) => node.y), 0) + TALL + 50;
  const shown = svg("svg", { width: wide, height: high, viewBox: `-10 0 ${wide} ${high}`, role: "img", "aria-label": `graph of the states, coloured by ${rule}` });
  for (const edge of [...edges].sort((a, b) => a.count - b.count)) {
    const value = rule ? (edge.sums[rule] ?? 0) / edge.count : null, look = shade(value, most), forward = edge.to.x > edge.from.x;
    const x1 = edge.from.x + BOX, y1 = edge.from.y + TALL / 2, x2 = edge.to.x, y2 = edge.to.y + TALL / 2, bend = GAP_X * 0.6;
    const d = forward ? `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`
      : `M${x1 - BOX / 2} ${y1 + TALL / 2}C${x1 - BOX / 2} ${y1 + 74} ${x2 + BOX / 2} ${y2 + 74} ${x2 + BOX / 2} ${y2 + TALL / 2}`;
    const actions = [...edge.actions].sort((a, b) => b[1] - a[1]);
    const tip = `${actions.slice(0, 8).map(([action, n]) => `${line(action, 80)} ×${n}`).join("\n")}\n${plural(edge.count, "time")} by ${plural(edge.episodes.size, "episode")}, ${edge.wins.size} of them won\nmean advantage ${signed(value)}`;
    shown.append(svg("path", { class: `edge ${look.class}`, style: look.style, d, "stroke-width": Math.min(9, 1 + 1.6 * Math.sqrt(edge.count)) }, svg("title", {}, tip)));
    if (forward && x2 - x1 <= GAP_X + 1)
      shown.append(svg("text", { class: "action", x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 4, "text-anchor": "middle" }, line(actions[0][0], 17)));
  }
  for (const node of nodes) {
    const fate = node.end || (node.wins.size === 0 ? "lost" : node.wins.size === node.episodes.size ? "won" : "open");
    const title = node.folded ? `${node.folded} turns in states of one episode` : line(node.text, 600);
    const more = `${plural(node.episodes.size, "episode")}, ${node.wins.size} won${node.stays && !node.folded ? `, ↻ ${node.stays}` : ""}`;
    shown.append(svg("g", { class: `state ${fate} ${node.folded ? "folded" : ""}`, transform: `translate(${node.x} ${node.y})` },
      svg("title", {}, `${title}\n${more}${node.stays && !node.folded ? " turns stayed here" : ""}`),
      svg("rect", { width: BOX, height: TALL, rx: 6 }),
      svg("text", { x: 8, y: 16 }, line(node.folded ? `${node.folded} turns apart` : node.text, 20)),
      svg("text", { class: "small", x: 8, y: 31 }, more)));
  }
  return shown;
}
