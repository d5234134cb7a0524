// The walk: a step of it as rayfed/report/panels/walk.py draws it, a slider, a button that plays.
page.add("walk", ({ walks: runs, shared }) => {
  const PAUSE_MS = 280;
  const PHONE = 470; // pixels, as in page.css, so that nothing jumps
  const $ = (id) => document.getElementById(id);
  const walks = runs.map((one) => ({ ...one, steps: shared.paths[one.path] }));
  let chosen = 0;
  let at = walks[0].steps.round.length - 1;
  let playing = false;
  let turn = 0;

  function lines(x, y, ends) {
    const pairs = { x: [], y: [] };
    for (let k = 0; k < ends.length; k += 2) {
      pairs.x.push(x[ends[k]], x[ends[k + 1]], null);
      pairs.y.push(y[ends[k]], y[ends[k + 1]], null);
    }
    return pairs;
  }

  // Colours and words of rayfed/report/panels/walk.py.
  function fill(distances, steps, k) {
    const row = distances.newest[k];
    const evaluated = units.count(distances.round[row]);
    const dot = (distance, i) => {
      const since = distances.since[i];
      if (since === null || since > steps.round[k]) return [distances.waiting, "not selected so far"];
      if (distance === null) return [distances.waiting, "its own model was not measured"];
      const away = units.number(distance);
      return [distance, `its own model ${away} from the server's in round ${evaluated}`];
    };
    const dots = distances.distance[row].map(dot);
    return { color: dots.map(([color]) => color), hovertext: dots.map(([, text]) => text) };
  }

  function parts({ steps, distances }, k) {
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
        ...(distances ? fill(distances, steps, k) : {}),
      },
      here: { x: here.map((i) => x[i]), y: here.map((i) => y[i]) },
    };
  }

  function build(one, k) {
    const made = structuredClone(one.walk);
    const values = parts(one, k);
    for (const trace of made.data) {
      const { x, y, size, width, color, hovertext } = values[trace.meta.part];
      Object.assign(trace, { x, y });
      if (size) Object.assign(trace.marker, { size, line: { ...trace.marker.line, width } });
      if (color) Object.assign(trace.marker, { color });
      if (hovertext) trace.hovertext = hovertext;
    }
    if (figures.narrow.matches) made.layout.height = PHONE;
    return made;
  }

  function position({ steps, distances }, k) {
    const [round, seconds] = [units.count(steps.round[k]), units.duration(steps.time_s[k])];
    const last = units.count(steps.round.at(-1));
    const [place] = steps.here[k];
    const where = place === undefined ? "at a client that is not drawn" : `at client ${steps.clients[place]}`;
    const number = steps.number[k];
    const who = number === 1 ? "1 client" : `${number} clients`;
    const evaluated = distances?.round[distances.newest[k]];
    const then = distances ? ` Colours are of round ${units.count(evaluated)}.` : "";
    return `Round ${round} of ${last}, ${seconds} of simulated time: the server is ${where} and selects ${who}.${then}`;
  }

  function show(k) {
    const one = walks[chosen];
    at = k;
    const slider = $("walk-step");
    slider.max = one.steps.round.length - 1;
    slider.value = k;
    const text = position(one, k);
    page.say("walk-position", text);
    slider.setAttribute("aria-valuetext", text);
    return figures.draw("walk", build(one, k));
  }

  function stop() {
    turn += 1; // ends the player
    playing = false;
    $("walk-play").textContent = "Play";
  }

  async function play() {
    stop();
    const own = turn;
    const last = walks[chosen].steps.round.length - 1;
    playing = true;
    $("walk-play").textContent = "Pause";
    if (at >= last) await show(0);
    while (turn === own && at < last) {
      await new Promise((done) => setTimeout(done, PAUSE_MS));
      if (turn === own) await show(at + 1);
    }
    if (turn === own) stop();
  }

  // Draws the parts that do not follow the slider: visits and second eigenvalues.
  function choose(index) {
    stop();
    chosen = Number(index);
    const one = walks[chosen];
    page.say("walk-title", one.title);
    $("walk-asked").style.borderColor = `var(--a${one.place})`;
    at = one.steps.round.length - 1;
    return draw();
  }

  async function draw() {
    const one = walks[chosen];
    for (const [id, text] of Object.entries(one.notes)) page.say(`${id}-note`, text);
    await show(at);
    await figures.draw("visits", one.visits);
    if ($("eigenvalues")) await figures.drawOrClear("eigenvalues", one.eigenvalues);
  }

  function listen() {
    $("walk-step").addEventListener("input", ({ target }) => (stop(), show(Number(target.value))));
    $("walk-play").addEventListener("click", () => (playing ? stop() : play()));
  }

  return { draw, listen, choices: { walk: choose } };
});
