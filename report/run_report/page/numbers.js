// How numbers are written, and the few statistics that the page computes itself.

/** @param {number} n */
function count(n) {
  for (const [size, unit] of /** @type {[number, string][]} */ ([[1e9, "G"], [1e6, "M"], [1e4, "k"]]))
    if (Math.abs(n) >= size) return `${(n / (unit === "k" ? 1e3 : size)).toFixed(1)}${unit}`;
  return n.toLocaleString("en");
}

/** @param {number} n @param {string} what */
function plural(n, what) {
  return `${count(n)} ${what}${n === 1 ? "" : "s"}`;
}

/** @param {number | null | undefined} share */
function percent(share) {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)} %`;
}

/** @param {number | null | undefined} value */
function signed(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 5e-4 ? "0.000" : `${value > 0 ? "+" : "−"}${Math.abs(value).toFixed(3)}`;
}

/** @param {number | null | undefined} value */
function plain(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size && (size < 1e-3 || size >= 1e6)) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

/** @param {number} seconds */
function duration(seconds) {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/**
 * Return Wilson's 95 % interval of a rate.
 * @param {number} k @param {number} n
 * @returns {[number, number]}
 */
function wilson(k, n) {
  if (!n) return [0, 1];
  const z = 1.959963984540054, p = k / n, scale = 1 + (z * z) / n;
  const middle = (p + (z * z) / (2 * n)) / scale;
  const half = (z / scale) * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n));
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

/**
 * Return the two-sided p-value of the exact McNemar test.
 * @param {number} one pairs that only the first won @param {number} two pairs that only the second won
 */
function mcnemar(one, two) {
  const n = one + two, least = Math.min(one, two);
  let term = -n * Math.LN2, sum = 0; // logarithm of the binomial probability of k successes
  for (let k = 0; k <= least; k++) {
    sum += Math.exp(term);
    term += Math.log(n - k) - Math.log(k + 1);
  }
  return Math.min(1, 2 * sum);
}

/** @param {number} p */
function pValue(p) {
  return p >= 0.001 ? p.toFixed(3) : p.toExponential(0);
}

/** @param {number[]} values */
function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : 0;
}
