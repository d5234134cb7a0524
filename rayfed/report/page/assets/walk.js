// The walk: one step of it as analysis/figures/walk.py draws it, a slider, and a button that plays.
const walk = (() => {
  const PAUSE_MS = 280;
  const PHONE = 470; // pixels, as in page.css, so that nothing jumps
  const narrow = window.matchMedia("(max-width: 640px)");
  const $ = (id) => document.getElementById(id);
  let walks = [];
  let shared = null; // what several walks have in common
  let draw = null;
  let chosen = 0;
  let at = 0;
  let playing = false;
  let turn = 0;

  function lines(x, y, ends) {
    const found = { x: [], y: [] };
    for (let k = 0; k < ends.length; k += 2) {
      found.x.push(x[ends[k]], x[ends[k + 1]], null);
      found.y.push(y[ends[k]], y[ends[k + 1]], null);
    }
    return found;
  }

  // Colours and words of analysis/figures/apart.py.
  function fill(apart, steps, k) {
    const row = apart.of[k];
    const told = units.count(apart.round[row]);
    const one = (away, i) => {
      const since = apart.since[i];
      if (since === null || since > steps.round[k]) return [apart.waiting, "not asked so far"];
      if (away === null) return [apart.waiting, "its own model was not measured"];
      return [away, `its own model ${units.number(away)} from the server's in round ${told}`];
    };
    const dots = apart.distance[row].map(one);
    return { color: dots.map(([color]) => color), hovertext: dots.map(([, text]) => text) };
  }

  function parts({ steps, apart }, k) {
    const [x, y] = shared.spots[steps.spots[k]];
    const [trail, asked] = [steps.trail[k], new Set(steps.asked[k])];
    const here = steps.here[k];
    const [small, large] = steps.sizes;
    const around = here.length ? [...asked].flatMap((other) => [here[0], other]) : [];
    return {
      links: lines(x, y, shared.links[steps.links[k]]),
      around: lines(x, y, around),
      path: { x: trail.map((i) => x[i]), y: trail.map((i) => y[i]) },
      clients: {
        x,
        y,
        size: x.map((_, i) => (asked.has(i) ? large : small)),
        width: x.map((_, i) => (asked.has(i) ? 3 : 1)),
        ...(apart ? fill(apart, steps, k) : {}),
      },
      here: { x: here.map((i) => x[i]), y: here.map((i) => y[i]) },
    };
  }

  function build(one, k) {
    const made = structuredClone(one.walk);
    const found = parts(one, k);
    for (const trace of made.data) {
      const { x, y, size, width, color, hovertext } = found[trace.meta.part];
      Object.assign(trace, { x, y });
      if (size) Object.assign(trace.marker, { size, line: { ...trace.marker.line, width } });
      if (color) Object.assign(trace.marker, { color });
      if (hovertext) trace.hovertext = hovertext;
    }
    if (narrow.matches) made.layout.height = PHONE;
    return made;
  }

  function told({ steps, apart }, k) {
    const [round, seconds] = [units.count(steps.round[k]), units.duration(steps.time_s[k])];
    const last = units.count(steps.round.at(-1));
    const [place] = steps.here[k];
    const where = place === undefined ? "at a client that is not drawn" : `at client ${steps.clients[place]}`;
    const number = steps.number[k];
    const who = number === 1 ? "1 client" : `${number} clients`;
    const then = apart ? ` Colours are of round ${units.count(apart.round[apart.of[k]])}.` : "";
    return `Round ${round} of ${last}, ${seconds} of simulated time: the server is ${where} and asks ${who}.${then}`;
  }

  function show(k) {
    const one = walks[chosen];
    at = k;
    const slider = $("walk-step");
    slider.max = one.steps.round.length - 1;
    slider.value = k;
    $("walk-told").textContent = told(one, k);
    slider.setAttribute("aria-valuetext", $("walk-told").textContent);
    return draw("walk", build(one, k));
  }

  function stop() {
    turn += 1; // whoever plays sees that it is over
    playing = false;
    $("walk-play").textContent = "Play";
  }

  async function play() {
    stop();
    const mine = turn;
    const last = walks[chosen].steps.round.length - 1;
    playing = true;
    $("walk-play").textContent = "Pause";
    if (at >= last) await show(0);
    while (turn === mine && at < last) {
      await new Promise((done) => setTimeout(done, PAUSE_MS));
      if (turn === mine) await show(at + 1);
    }
    if (turn === mine) stop();
  }

  // What stays while the slider moves: the titles, the visits and the second eigenvalues.
  function choose(index) {
    stop();
    chosen = Number(index);
    const one = walks[chosen];
    for (const [id, text] of Object.entries(one.titles)) {
      const title = $(`${id}-title`);
      if (title) title.textContent = text;
    }
    $("walk-asked").style.borderColor = `var(--a${one.place})`;
    at = one.steps.round.length - 1;
    return redraw();
  }

  async function redraw() {
    if (!walks.length) return;
    const one = walks[chosen];
    for (const [id, text] of Object.entries(one.notes)) $(`${id}-note`).textContent = text;
    await show(at);
    await draw("visits", one.visits);
    if (!$("eigenvalues")) return;
    if (!one.eigenvalues) Plotly.purge($("eigenvalues"));
    await draw("eigenvalues", one.eigenvalues);
  }

  function start(found, common, drawing) {
    [shared, draw] = [common, drawing];
    walks = found.map((one) => ({ ...one, steps: shared.ways[one.way] }));
    if (walks.length) at = walks[0].steps.round.length - 1;
  }

  function listen() {
    if (!walks.length) return;
    $("walk-step").addEventListener("input", ({ target }) => (stop(), show(Number(target.value))));
    $("walk-play").addEventListener("click", () => (playing ? stop() : play()));
  }

  return { start, listen, choose, redraw };
})();
