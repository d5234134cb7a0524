// The scatter plot of the overview: a dot for each run that the table of runs shows.
const scatter = (() => {
  const given = document.getElementById("scatter");
  const shared = { live: true, labelled: false, file: "runs", dark: {} };
  let payload = given && JSON.parse(given.textContent);
  let ready = null; // once Plotly is loaded
  let isShown = () => true;

  async function draw() {
    if (!document.getElementById("dots")) return;
    if (!ready) {
      ready = figures.start(shared);
      figures.listen(draw);
    }
    await ready;
    shared.dark = payload.dark;
    const place = document.getElementById("dots");
    const figure = structuredClone(payload.figure);
    for (const trace of figure.data) {
      const stay = trace.customdata.map((run) => isShown(run));
      for (const key of ["x", "y", "text", "customdata"]) trace[key] = trace[key].filter((_, k) => stay[k]);
    }
    await figures.draw("dots", figure);
    place.removeAllListeners("plotly_click");
    place.on("plotly_click", ({ points }) => overview.toggle(points[0].customdata));
  }

  // Draws other runs, or the same ones after the filter has changed.
  function show(test, renewed = payload) {
    [isShown, payload] = [test, renewed];
    return draw();
  }

  return { show };
})();
