// The data of the report: parts that are in the page or come from a live server, and turns that are read on request.

/**
 * @typedef {{task: string, type: string, won: (0|1|null)[], reward: number[], turns: number[], stop: string[],
 *   ending: string[]}} Group outcomes of a task's episodes, one entry for each
 * @typedef {{task: string, size: number, group: number, played: number, finished: number, won: number, counted?: number,
 *   kept?: number, rounds: number, weight: number | string, dropped: string | null, hinted: number, hints: string[],
 *   options: string | null, replayed: number}} Drawn a group as it was drawn and as it grew; `dropped` names the rule
 * @typedef {{number: number, label: string, groups: Group[], notes: string[], drawn: Drawn[] | null}} Iteration the
 *   episodes of one file, and what was drawn for them
 * @typedef {{value: number[], parts: Record<string, number[]>, dropped: number[]}} Credit
 * @typedef {{id: string, seed: number, score: number, seconds: number, error: string | null, final: number,
 *   observation: number[], images: string, answer: number[], action: number[], state: number[], reward: number[], mark: string,
 *   repeat: string, finish: Record<string, string>, extras: Record<string, Record<string, string>>,
 *   version: number[], credit: Record<string, Credit>,
 *   fork?: [number, number]}} Member an episode; texts are positions in `strings`
 * @typedef {{strings: string[], groups: Record<number, {members: Member[]}>, rules: string[], notes: string[]}} Turns
 * @typedef {{prompt: number[], same: number[], added: number[][], response: number[][],
 *   logprob: (number | null)[][]}} TokenRows tokens of an episode, turn by turn
 * @typedef {{groups: Record<number, {members: TokenRows[]}>, pieces: Record<number, string> | null}} Tokens
 * @typedef {{groups: Record<number, Record<number, Shots>>, images: string[]}} Screens
 * @typedef {{stored: boolean, places: (number | null)[], touches: number[][][], note: string}} Shots screens before the
 *   turns of an episode, as positions in `images`: those that were stored with it, or pictures of a replay
 * @typedef {[string, string, 0|1|null, number, number, string, string?, string?]} Outcome task, type, won, score,
 *   turns, stop, what the panel is, and the part of a mixture; two outcomes with equal tasks and panels are of the same
 *   episode to play
 * @typedef {{name: string, iteration: number, other: boolean, rows: Outcome[], arm?: string, seed?: number}} Evaluation
 * @typedef {{value: number | null, low: number | null, high: number | null, n: number}} Measured
 * @typedef {{name: string, scores: Record<string, Measured>, true: number | null, differences: Record<string, Measured>,
 *   beyond: string[]}} ScoredRule a rule against the truth; `beyond` are the measures that differ beyond the noise
 * @typedef {{number: number, verdict: string, enough: boolean, reference: string, reliability: number | null,
 *   turns: number, forks: number, histories: number, density: {significant: number, top_tenth: number},
 *   same: Record<string, string[]>, leftOut: Record<string, string>, rules: ScoredRule[]}} Truth
 * @typedef {{revision: number, from: number, parts: Record<string, any>, patches?: Record<string, any[]>}} News
 */

const KEPT = 8; // files of episodes whose turns are kept in memory

/** All parts of the report, and how further ones are had. */
class Feed {
  /** @param {any} data */
  constructor(data) {
    this.live = Boolean(data.live);
    this.kept = data.kept;
    /** @type {Record<string, Record<string, [string, string]>>} head and explanation of the columns of tables */
    this.columns = data.columns;
    this.revision = 0;
    /** @type {Map<string, any>} */
    this.parts = new Map();
    /** @type {Map<string, Promise<any>>} */
    this.chunks = new Map();
    this.apply(data);
  }

  /** Take over what is new; return the names of the parts that changed. @param {News} news */
  apply(news) {
    const patches = news.patches ?? {}, changed = [...Object.keys(news.parts), ...Object.keys(patches)];
    if (news.from === 0 && this.revision > 0) this.parts.clear();
    for (const [name, part] of Object.entries(news.parts)) this.parts.set(name, name.includes("iteration/") ? unpacked(part) : part);
    for (const [name, all] of Object.entries(patches)) all.forEach((patch) => patched(this.parts.get(name), patch));
    for (const name of changed) {
      const place = name.replace("iteration/", "turns/");
      for (const known of [...this.chunks.keys()])
        if (name.includes("iteration/") && [place, place.replace("turns/", "tokens/"), place.replace("turns/", "screens/")].some((one) => known === one || known.startsWith(`${one}/`))) this.chunks.delete(known);
    }
    this.revision = news.revision;
    return changed;
  }

  /** @param {string} name @returns {Promise<any>} */
  chunk(name) {
    const known = this.chunks.get(name);
    if (known) return known;
    const loading = this.load(name);
    loading.catch(() => this.chunks.delete(name));
    this.chunks.set(name, loading);
    if (this.chunks.size > 2 * KEPT) this.chunks.delete(/** @type {string} */ (this.chunks.keys().next().value));
    return loading;
  }

  /** @param {string} name @returns {Promise<any>} */
  async load(name) {
    let bytes;
    if (this.live) {
      const answer = await fetch(`/${name}`);
      if (!answer.ok) return null;
      bytes = await answer.blob();
    } else {
      const element = document.getElementById(name);
      if (!element) return null;
      bytes = new Blob([Uint8Array.from(atob(element.textContent ?? ""), (c) => c.charCodeAt(0))]);
    }
    return new Response(bytes.stream().pipeThrough(new DecompressionStream("gzip"))).json();
  }

  /** Ask the live server for what is new; return the names of what changed. */
  async ask() {
    const answer = await fetch(`/news?since=${this.revision}`);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return this.apply(await answer.json());
  }
}

/** What belongs to one run, or to the folder itself: the parts whose names begin with a prefix. */
class Store {
  /** @param {Feed} feed @param {string} prefix */
  constructor(feed, prefix = "") {
    this.feed = feed;
    this.prefix = prefix;
  }

  get live() {
    return this.feed.live;
  }

  get kept() {
    return this.feed.kept;
  }

  /** What is known of the folder. @returns {{kind: "run"|"benchmark"|"ablation", [key: string]: any}} */
  get run() {
    return this.feed.parts.get(`${this.prefix}run`) ?? { kind: "run", name: "report", settings: [], versions: {}, notes: [], credit: [], creditText: [] };
  }

  /** The runs that have episodes: this one, or those of an ablation. @returns {Store[]} */
  get runs() {
    if (this.run.kind !== "ablation") return [this];
    return this.part("results").runs.flatMap((/** @type {any} */ _, /** @type {number} */ place) =>
      this.feed.parts.has(`${place}:run`) ? [new Store(this.feed, `${place}:`)] : []);
  }

  /** @param {string} name @returns {any} */
  part(name) {
    return this.feed.parts.get(this.prefix + name);
  }

  /** @param {string} kind @returns {any[]} */
  all(kind) {
    return [...this.feed.parts].filter(([name]) => name.startsWith(`${this.prefix}${kind}/`)).map(([, value]) => value);
  }

  /** @returns {Iteration[]} */
  get iterations() {
    return this.all("iteration").sort((a, b) => a.number - b.number);
  }

  /** @param {number} number @returns {Iteration | undefined} */
  iteration(number) {
    return this.part(`iteration/${number}`);
  }

  /** The truth about the turns of some iterations, where forks were played. @returns {Truth[]} */
  get truths() {
    return this.all("truth").sort((a, b) => a.number - b.number);
  }

  /** @param {string} phase */
  events(phase) {
    return this.all("event").filter((event) => event.phase === phase);
  }

  /** @returns {Evaluation[]} */
  get evaluations() {
    return this.all("evaluation").sort((a, b) => Number(a.other) - Number(b.other) || a.iteration - b.iteration);
  }

  /** @param {number} number */
  has(number) {
    return this.live || document.getElementById(`${this.prefix}turns/${number}`) !== null;
  }

  /**
   * Return the turns of a file, or null if this report does not hold them.
   * @param {number} number @param {number} [index] the one group that is wanted; a live server sends no others
   * @returns {Promise<Turns | null>}
   */
  turns(number, index) {
    return this.feed.chunk(this.name("turns", number, index));
  }

  /** @param {number} number @param {number} index @returns {Promise<Tokens | null>} */
  tokens(number, index) {
    return this.feed.chunk(this.name("tokens", number, index));
  }

  /** @param {number} number @param {number} index @returns {Promise<Screens | null>} */
  screens(number, index) {
    return this.feed.chunk(this.name("screens", number, index));
  }

  /** @param {string} kind @param {number} number @param {number} [index] */
  name(kind, number, index) {
    return `${this.prefix}${kind}/${number}${this.live && index !== undefined ? `/${index}` : ""}`;
  }

  /** The name of a file of episodes. @param {number} number */
  label(number) {
    const label = this.iteration(number)?.label;
    return label ? `panel ${label}` : `iteration ${number}`;
  }

  /** The name of a group in words. @param {number} number @param {number} index */
  place(number, index) {
    return `${line(this.label(number), 60)}, ${this.run.kind === "benchmark" ? "task" : "group"} ${index + 1}`;
  }
}

/** Return an iteration with its strings in place. @param {any} packed @returns {Iteration & {strings: string[]}} */
function unpacked(packed) {
  return { number: packed.number, label: packed.label ?? "", groups: packed.groups.map((/** @type {any} */ group) => worded(group, packed.strings)), notes: packed.notes, drawn: drawnRows(packed.drawn, packed.strings), strings: packed.strings };
}

/** Return what was drawn with its strings and usual values in place. @param {any[] | null | undefined} rows @param {string[]} strings @returns {Drawn[] | null} */
function drawnRows(rows, strings) {
  const text = (/** @type {number | null | undefined} */ place) => (place === null || place === undefined ? null : strings[place]);
  return rows?.map((row) => ({
    rounds: 1, weight: 1, hinted: 0, replayed: 0, ...row,
    task: strings[row.task], dropped: text(row.dropped), options: text(row.options), hints: (row.hints ?? []).map(text),
  })) ?? null;
}

/** @param {any} group @param {string[]} strings @returns {Group} */
function worded(group, strings) {
  const text = (/** @type {number} */ place) => strings[place];
  return { ...group, task: text(group.task), type: text(group.type), stop: group.stop.map(text), ending: group.ending.map(text) };
}

/** Put what is new into an iteration. @param {Iteration & {strings: string[]}} iteration @param {any} patch */
function patched(iteration, patch) {
  iteration.strings.push(...patch.strings);
  for (const [place, group] of Object.entries(patch.groups)) iteration.groups[Number(place)] = worded(group, iteration.strings);
  if (patch.notes) iteration.notes = patch.notes;
  if (patch.drawn !== undefined) iteration.drawn = drawnRows(patch.drawn, iteration.strings);
}
