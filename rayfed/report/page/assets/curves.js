// The convergence figure for any clock, column and target: the traces and their style come from
// rayfed/report/panels/convergence.py; here they get new numbers.
const curves = (() => {
  const GAP = 17; // pixels between two labels
  const UNIT = /(?<=\d) (?=(?:%|ms|s|min|h|d|[kMGTP]?[BJ]|rounds?|updates?)(?!\w))/g;
  const MOST_NAMED = 4; // algorithms that the reading names
  const SPAN = 10; // ratio of the largest to the smallest value from which a log axis helps
  const LABEL = [0.3, 0.1]; // of the width and the height of the axes, for the name of the target
  const FEW_ROUNDS = 7; // no ticks between rounds where there are so few
  const [SIZE, POWER_SIZE] = [13, 10.5]; // powers are written a quarter larger than asked for
  const MARGINS = 64; // pixels above and below the plot

  function extent(lines, log) {
    const values = lines.flatMap((c) => [...c.low, ...c.high]).filter((v) => !log || v > 0);
    if (!values.length) return null;
    const scaled = values.map((v) => (log ? Math.log10(v) : v));
    const low = scaled.reduce((a, b) => Math.min(a, b));
    const high = scaled.reduce((a, b) => Math.max(a, b));
    const [apart, size] = [high - low, Math.max(Math.abs(low), Math.abs(high))];
    const margin = 0.04 * (apart > 1e-12 * size ? apart : size || 1); // less is rounding, and has no ticks
    return [low - margin, high + margin];
  }

  const lowest = (lines) => lines.flatMap((c) => c.mean).reduce((a, b) => Math.min(a, b), Infinity);
  const highest = (lines) => lines.flatMap((c) => c.mean).reduce((a, b) => Math.max(a, b), -Infinity);
  const positive = (lines) => lines.some((c) => c.mean.length) && lowest(lines) > 0;
  const spansDecades = (lines) => positive(lines) && highest(lines) / lowest(lines) >= SPAN;

  // Moves heights apart so that neighbours keep a gap; see rayfed/report/figures/labels.py.
  function spread(heights, room) {
    const blocks = [];
    for (const [name, height] of [...heights].sort((a, b) => a[1] - b[1])) {
      let names = [name];
      let middle = height;
      while (blocks.length) {
        const below = blocks[blocks.length - 1];
        const both = names.length + below.names.length;
        if (middle - below.middle >= (GAP * both) / 2) break;
        blocks.pop();
        middle = (below.middle * below.names.length + middle * names.length) / both;
        names = [...below.names, ...names];
      }
      const half = (GAP * (names.length - 1)) / 2;
      blocks.push({ names, middle: Math.min(Math.max(middle, half), room - half) });
    }
    const placed = ({ names, middle }) =>
      names.map((name, i) => [name, middle + GAP * (i - (names.length - 1) / 2)]);
    return new Map(blocks.flatMap(placed));
  }

  function labels(names, lines, range, log, height) {
    const room = height - MARGINS;
    const perPixel = (range[1] - range[0]) / room;
    const ends = names
      .map((about) => ({ about, last: lines.get(about.name).mean.at(-1) }))
      .filter(({ last }) => last !== undefined && (!log || last > 0));
    const at = new Map(ends.map(({ about, last }) => [about.name, log ? Math.log10(last) : last]));
    const heights = new Map([...at].map(([name, v]) => [name, (v - range[0]) / perPixel]));
    const moved = spread(heights, room);
    return ends.map(({ about }) => ({
      name: about.name,
      xref: "paper",
      x: 1,
      xanchor: "left",
      xshift: 6,
      y: at.get(about.name),
      yshift: moved.get(about.name) - heights.get(about.name),
      text: about.short,
      showarrow: false,
      font: { color: about.light },
    }));
  }

  // A clock that stands still (a baseline that uploads nothing) becomes a level line.
  function level(c, end) {
    if (c.x.length !== 1) return c;
    const twice = (values) => values && [values[0], values[0]];
    return { x: [0, end], mean: twice(c.mean), low: twice(c.low), high: twice(c.high) };
  }

  function fill(trace, c, worth, end) {
    const scaled = { ...c, x: c.x.map((v) => v / worth) };
    if (trace.meta.part === "failed") { // before its first round: a cross, not a level line
      trace.x = scaled.x;
      trace.y = scaled.mean;
      return;
    }
    const flat = level(scaled, end);
    if (trace.meta.part === "band") {
      trace.x = [...flat.x, ...[...flat.x].reverse()];
      trace.y = [...flat.high, ...[...flat.low].reverse()];
    } else {
      trace.x = flat.x;
      trace.y = flat.mean;
      trace.mode = flat.x.length === 1 ? "markers" : "lines";
    }
  }

  // All runs of the rivals with the clock at which each reached the target.
  function crossings(data, view) {
    const found = new Map();
    const { better } = data.columns[view.y];
    for (const run of data.runs) {
      const at = view.target === null ? null : series.crossing(run, view.x, view.y, view.target, better);
      found.set(run.name, [...(found.get(run.name) ?? []), at]);
    }
    return found;
  }

  // A name with a comma would fall apart in a list.
  const quoted = (name) => (name.includes(",") ? `“${name}”` : name);

  // When each algorithm reached the target on the chosen clock, the first one first.
  function reading(data, names, view) {
    if (view.target === null) return "";
    const at = crossings(data, view);
    const leading = leaders(data, view);
    const having = new Set(data.runs.filter((run) => run.data[view.y]?.some((v) => v !== null)).map((run) => run.name));
    const rows = names.filter(({ name, rival }) => rival && having.has(name) && leading.has(name)).map(({ name }) => {
      const places = at.get(name) ?? [];
      const every = places.length > 0 && places.every((place) => place !== null);
      const partly = places.some((place) => place !== null);
      return { name, value: every ? series.mean(places) : null, partly };
    });
    const reached = rows.filter((row) => row.value !== null).sort((a, b) => a.value - b.value);
    const missing = rows.filter((row) => row.value === null);
    const parts = [
      ...reached.map((row) => `${quoted(row.name)} after ${units.clock(view.x, row.value)}`),
      ...missing.map((row) => `${quoted(row.name)} ${row.partly ? "not with every seed" : "never"}`),
    ];
    if (parts.length > MOST_NAMED) parts.splice(MOST_NAMED, Infinity, `${parts.length - MOST_NAMED} more`);
    const goal = `${data.columns[view.y].title} ${units.target(view.target)}`;
    return `${goal} reached: ${parts.join(", ")}`.replace(UNIT, "\u00a0");
  }

  // 1, 2, 5 where a log axis spans two decades or less, else powers.
  function ticks(range, log) {
    const decades = range && log ? range[1] - range[0] : 0;
    if (!log) return { dtick: undefined, tickformat: "", size: SIZE };
    return decades <= 2.2
      ? { dtick: "D2", tickformat: "~g", size: SIZE }
      : { dtick: Math.max(1, Math.ceil(decades / 7)), tickformat: "", size: POWER_SIZE };
  }

  // Title, scale and range of an axis for lists of values, as figures/style.py chooses them.
  function scale(axis, text, lists, linear) {
    const lines = lists.map((mean) => ({ mean, low: mean, high: mean }));
    const log = !linear && spansDecades(lines);
    const range = extent(lines, log);
    const { size, ...marks } = ticks(range, log);
    Object.assign(axis, { type: log ? "log" : "linear", range: range ?? [0, 1] }, marks);
    axis.title = { ...axis.title, text };
    axis.tickfont = { ...axis.tickfont, size };
  }

  // The names that have their colour: all, or where many settings were swept the best of each
  // algorithm at the end, or the one that the reader has singled out.
  const leaders = (data, view) => new Set(view.only ? [view.only] : data.columns[view.y].leaders);

  // The mean over seeds of an algorithm with its band.
  function mean(data, view, name) {
    const [place, ...parts] = data.curves[view.y][view.x][name];
    const [middle, low = middle, high = middle] = parts.map((part) => series.smoothed(part, view.smooth));
    return { x: data.grids[place], mean: middle, low, high };
  }

  // One run: its last value where the clock stands still.
  function single(run, view) {
    const { x, y } = series.points(run, view.x, view.y);
    const kept = [...x.keys()].filter((i) => x[i] !== x[i + 1]);
    return { x: kept.map((i) => x[i]), mean: series.smoothed(kept.map((i) => y[i]), view.smooth) };
  }

  // The runs whose lines stand for themselves, each with its line.
  function alone(data, view) {
    const leading = view.seeds ? leaders(data, view) : new Set();
    const runs = data.runs.filter(({ name }) => leading.has(name) && !view.hidden.has(name));
    return runs.map((run) => ({ run, line: single(run, view) })).filter(({ line }) => line.x.length);
  }

  // The traces of a figure, with lines of single seeds in place of means and bands.
  function apart(traces, singles, style) {
    const own = new Set(singles.map(({ run }) => run.name));
    const drawn = ({ meta: { name, part } }) => !["mean", "band"].includes(part) || !own.has(name);
    const made = singles.flatMap(({ run: { name, seed } }) => {
      const mean = traces.find(({ meta }) => meta.name === name && meta.part === "mean");
      if (!mean) return [];
      return { ...mean, ...style, line: { ...mean.line, width: 1.5 }, name: `${mean.name} seed ${seed}`, meta: { name, part: "seed", seed } };
    });
    return [...made, ...traces.filter((trace) => trace.meta.part !== "seed" && drawn(trace))];
  }

  // A line in its algorithm's colour, or thin and grey.
  function colourLine(trace, about, leads, others) {
    const own = { color: about.light, dash: about.dash, width: 2 };
    trace.line = { ...trace.line, ...(leads ? own : others) };
  }

  // The lines that set the scales of a case: an algorithm of which every run failed has left any.
  // Whether the axis is logarithmic goes by the means, also where single seeds are drawn.
  function scaling({ curves: data, names }, view) {
    const visible = names.filter((about) => !view.hidden.has(about.name));
    const singles = alone(data, view).map(({ run: { name }, line }) => ({ name, ...line, low: line.mean, high: line.mean }));
    const own = (name) => singles.filter((one) => one.name === name);
    const lines = (some) => some.flatMap(({ name }) => (own(name).length ? own(name) : [mean(data, view, name)])).filter((c) => c.x.length);
    const drawn = lines(visible);
    const sound = visible.filter((about) => !about.failed);
    const counted = lines(sound).length ? sound : visible;
    const means = counted.map(({ name }) => mean(data, view, name)).filter((c) => c.x.length);
    return { drawn, scaled: lines(counted), means };
  }

  // The axes that all cases have in common: range and scale of y, the end of x.
  function common(parts, view) {
    const found = parts.map((part) => scaling(part, view));
    const scaled = found.flatMap((one) => one.scaled);
    const means = found.flatMap((one) => one.means);
    const ends = found.flatMap((one) => one.drawn.map((c) => c.x.at(-1)));
    // An accuracy is read between 0 and 1.
    const helps = !view.y.includes("accuracy") && spansDecades(means);
    const log = positive(means) && (view.log ?? helps);
    const range = extent(scaled, log);
    const end = Math.max(...ends, 0) / parts[0].curves.clocks[view.x].worth || 1;
    return { log, range: range ?? [0, 1], known: Boolean(range), end, canLog: positive(means) };
  }

  // The figure for a view {x, y, log, target, hidden}: a copy of `figure` with new numbers.
  function build(figure, data, names, view, { log, range, known, end }) {
    const made = structuredClone(figure);
    const clock = data.clocks[view.x];
    const visible = names.filter((about) => !view.hidden.has(about.name));
    const lines = new Map(names.map(({ name }) => [name, mean(data, view, name)]));
    const at = crossings(data, view);
    const leading = leaders(data, view);
    const { others, seed: style } = figure.layout.meta;
    if (others) {
      for (const trace of made.data) {
        const { name, part } = trace.meta;
        if (part === "mean") colourLine(trace, names.find((one) => one.name === name), leading.has(name), others);
      }
      const above = ({ meta: { name, part } }) => Number(part !== "mean" || leading.has(name));
      made.data.sort((a, b) => above(a) - above(b)); // what comes first lies below
    }
    if (view.seeds) {
      made.data = apart(made.data, alone(data, view), style);
      made.layout.hovermode = "closest";
    }
    for (const trace of made.data) {
      const { name, part, seed } = trace.meta;
      trace.visible = !view.hidden.has(name) && (part !== "band" || leading.has(name));
      const about = names.find((one) => one.name === name);
      if (part !== "crossing") {
        const run = part === "seed" && data.runs.find((one) => one.name === name && one.seed === seed);
        fill(trace, run ? single(run, view) : lines.get(name), clock.worth, end);
        continue;
      }
      const places = about.baseline || !leading.has(name) ? [] : (at.get(name) ?? []).filter((place) => place !== null);
      trace.x = places.map((place) => place / clock.worth);
      trace.y = places.map(() => view.target);
    }
    const singles = alone(data, view).map(({ line }) => ({ ...line, low: line.mean, high: line.mean }));
    const means = visible.filter((about) => !about.failed).map(({ name }) => lines.get(name));
    const drawn = (singles.length ? singles : means).map((c) => level({ ...c, x: c.x.map((v) => v / clock.worth) }, end));
    const { xaxis, yaxis } = made.layout;
    Object.assign(xaxis, { range: [0, end], title: { ...xaxis.title, text: clock.title } });
    xaxis.dtick = view.x === "round" && end <= FEW_ROUNDS ? 1 : undefined;
    xaxis.unifiedhovertitle = { text: `${clock.plain} %{x:.4~g} ${clock.unit}`.trim() };
    yaxis.title = { ...yaxis.title, text: data.columns[view.y].label };
    const { size, ...marks } = ticks(known ? range : null, log);
    Object.assign(yaxis, { type: log ? "log" : "linear", range }, marks);
    yaxis.tickfont = { ...yaxis.tickfont, size };
    made.layout.annotations = known ? labels(visible.filter(({ name }) => leading.has(name)), lines, range, log, made.layout.height) : [];
    made.layout.shapes = view.target === null ? [] : [targetLine(figure, data, view, drawn, { range, log, end })];
    return made;
  }

  // The target with its name at the end and on the side where it lies on the fewest curves.
  // Curves start worse than the target and end better, so these quarters come last.
  function targetLine(figure, data, { y, target }, lines, { range: [low, high], log, end }) {
    const shape = figure.layout.meta.target;
    const share = (value) => ((log ? Math.log10(Math.max(value, 0)) : value) - low) / (high - low);
    const [better, worse] = data.columns[y].better === "higher" ? ["bottom", "top"] : ["top", "bottom"];
    const covered = ([position, anchor]) => {
      const left = position === "start" ? 0 : 1 - LABEL[0];
      const bottom = share(target) - (anchor === "bottom" ? 0 : LABEL[1]);
      if (bottom < 0 || bottom > 1 - LABEL[1]) return Infinity;
      return lines.reduce((sum, c) => sum + overlap(c, left, bottom, share, end), 0);
    };
    const places = [["start", better], ["end", worse], ["start", worse], ["end", better]];
    const least = Math.min(...places.map(covered));
    const [textposition, yanchor] = places.find((place) => covered(place) === least);
    return { ...shape, label: { ...shape.label, textposition, yanchor }, y0: target, y1: target };
  }

  // The width over which a band lies on the name of the target, in shares of the axes.
  function overlap({ x, low, high }, left, bottom, share, end) {
    return x.slice(1).reduce((sum, right, i) => {
      const wide = Math.min(right / end, left + LABEL[0]) - Math.max(x[i] / end, left);
      const under = Math.min(share(low[i]), share(low[i + 1])) < bottom + LABEL[1];
      const over = Math.max(share(high[i]), share(high[i + 1])) > bottom;
      return wide > 0 && under && over ? sum + wide : sum;
    }, 0);
  }

  return { build, common, reading, scale, targetLine };
})();
