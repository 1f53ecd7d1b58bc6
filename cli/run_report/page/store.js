// The data of the report: parts that are in the page or come from a live server, and turns that are read on request.

/**
 * @typedef {{task: string, type: string, won: (0|1|null)[], reward: number[], turns: number[], stop: string[],
 *   ending: string[]}} Group outcomes of a task's episodes, one entry for each
 * @typedef {{number: number, groups: Group[], notes: string[]}} Iteration
 * @typedef {{value: number[], parts: Record<string, number[]>, dropped: number[]}} Credit
 * @typedef {{id: string, seed: number, score: number, seconds: number, error: string | null, final: number,
 *   observation: number[], answer: number[], action: number[], state: number[], reward: number[], mark: string,
 *   repeat: string, finish: Record<string, string>, extras: Record<string, Record<string, string>>,
 *   version: number[], credit: Record<string, Credit>}} Member an episode; texts are positions in `strings`
 * @typedef {{strings: string[], groups: {members: Member[]}[], rules: string[], notes: string[]}} Turns
 * @typedef {{name: string, iteration: number, other: boolean,
 *   rows: [string, string, 0|1|null, number, number, string][]}} Evaluation
 */

const KEPT = 8; // iterations whose turns are kept in memory

class Store {
  /** @param {any} data */
  constructor(data) {
    this.live = Boolean(data.live);
    this.kept = data.kept;
    this.revision = 0;
    /** @type {Map<string, any>} */
    this.parts = new Map();
    /** @type {Map<string, Promise<any>>} */
    this.chunks = new Map();
    this.apply(data);
  }

  /**
   * Take over what is new; return whether anything is.
   * @param {{revision: number, from: number, parts: Record<string, any>}} news
   */
  apply(news) {
    const changed = Object.keys(news.parts);
    if (news.from === 0 && this.revision > 0) this.parts.clear();
    for (const name of changed) {
      this.parts.set(name, name.startsWith("iteration/") ? unpacked(news.parts[name]) : news.parts[name]);
      if (name.startsWith("iteration/")) {
        const number = name.slice("iteration/".length);
        this.chunks.delete(`turns/${number}`);
        this.chunks.delete(`tokens/${number}`);
      }
    }
    this.revision = news.revision;
    return changed.length > 0;
  }

  /** @returns {any} */
  get run() {
    return this.parts.get("run") ?? { name: "report", settings: [], versions: {}, notes: [], credit: [], creditText: [] };
  }

  /** @param {string} kind @returns {any[]} */
  all(kind) {
    return [...this.parts].filter(([name]) => name.startsWith(`${kind}/`)).map(([, value]) => value);
  }

  /** @returns {Iteration[]} */
  get iterations() {
    return this.all("iteration").sort((a, b) => a.number - b.number);
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
    return this.live || document.getElementById(`turns/${number}`) !== null;
  }

  /** @param {number} number @returns {Promise<Turns | null>} null if the file does not hold them */
  turns(number) {
    return this.chunk(`turns/${number}`);
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

  /** Ask the live server for what is new; return whether anything is. */
  async ask() {
    const answer = await fetch(`/news?since=${this.revision}`);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return this.apply(await answer.json());
  }
}

/** Return an iteration with its strings in place. @param {any} packed @returns {Iteration} */
function unpacked(packed) {
  const text = (/** @type {number} */ place) => packed.strings[place];
  const groups = packed.groups.map((/** @type {any} */ group) => ({
    ...group,
    task: text(group.task),
    type: text(group.type),
    stop: group.stop.map(text),
    ending: group.ending.map(text),
  }));
  return { number: packed.number, groups, notes: packed.notes };
}
