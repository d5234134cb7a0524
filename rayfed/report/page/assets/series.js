// Where runs reach a target that the reader has moved, as rayfed/report/read/curves.py has it; curves come from there.
const series = (() => {
  // The evaluated points of one run: [clock, value] pairs of arrays.
  function points(run, x, y) {
    const xs = run.data[x];
    const ys = run.data[y];
    if (!xs || !ys) return { x: [], y: [] };
    const kept = [...xs.keys()].filter((i) => xs[i] !== null && ys[i] !== null);
    return { x: kept.map((i) => xs[i]), y: kept.map((i) => ys[i]) };
  }

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  function deviation(values, middle) {
    if (values.length < 2) return 0;
    const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
    return Math.sqrt(squares / (values.length - 1));
  }

  // The clock at the first row as good as the target; null if there is none.
  function crossing(run, x, y, target, better) {
    const ys = run.data[y] ?? [];
    const good = better === "higher" ? (v) => v >= target : (v) => v <= target;
    const at = ys.findIndex((value) => value !== null && good(value));
    return at < 0 ? null : (run.data[x]?.[at] ?? null);
  }

  // The clock at the first evaluated row from which on all are as good as the target; null if the
  // last one is not.
  function keeping(run, x, y, target, better) {
    const known = points(run, x, y);
    const bad = better === "higher" ? (v) => v < target : (v) => v > target;
    const first = known.y.findLastIndex(bad) + 1;
    return first < known.x.length ? known.x[first] : null;
  }

  // The round of the first row as good as the target, and its distance to the evaluated row before.
  function within(run, y, target, better) {
    const known = points(run, "round", y);
    const at = known.y.findIndex(better === "higher" ? (v) => v >= target : (v) => v <= target);
    return at < 0 ? null : { round: known.x[at], within: at ? known.x[at] - known.x[at - 1] : 0 };
  }

  // The exponential mean so far; see rayfed/report/read/curves.py.
  function smoothed(values, weight) {
    if (!weight) return values;
    let mean = 0;
    return values.map((value, k) => (mean = weight * mean + (1 - weight) * value) / (1 - weight ** (k + 1)));
  }

  return { smoothed, points, crossing, keeping, within, mean, deviation };
})();
