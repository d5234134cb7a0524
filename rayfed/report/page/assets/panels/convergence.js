// The convergence figure: its axes and its target, which other panels follow.
page.add("convergence", (payload) => {
  const $ = (selector) => document.querySelector(selector);
  const { data, view } = page;
  let axis = null; // range and scale of the y axis as it is drawn

  function draw() {
    const made = curves.build(payload.figure, payload.curves, data.names, view);
    axis = made.axis;
    showReading();
    showTarget();
    page.press("scale", axis.log ? "log" : "linear");
    $('[data-scale="log"]').disabled = !axis.canLog;
    return figures.draw("convergence", made, { shapePosition: true });
  }

  // The answer on top tells of the first view, so only another one needs words of its own.
  function showReading() {
    const first = ["x", "y", "target", "only"].every((key) => view[key] === data.view[key]);
    const text = first ? "" : curves.reading(payload.curves, data.names, view);
    $("#reading").textContent = text;
  }

  // Target on the slider's scale of 0 to 1000, from the lower to the upper end of the y axis.
  const toSlider = (value) => {
    const { range, log } = axis;
    return ((log ? Math.log10(value) : value) - range[0]) / (range[1] - range[0]) * 1000;
  };
  const fromSlider = (place) => {
    const { range, log } = axis;
    const value = range[0] + (place / 1000) * (range[1] - range[0]);
    return Number((log ? 10 ** value : value).toPrecision(3));
  };

  function showTarget() {
    const has = view.target !== null;
    $("#target").hidden = !has;
    if (!has) return;
    $("#target-value").value = units.target(view.target).replaceAll(",", "");
    $("#target-slider").value = toSlider(view.target);
    $("#target-slider").setAttribute("aria-valuetext", units.target(view.target));
  }

  function setTarget(value) {
    if (Number.isFinite(value)) view.target = value;
    return page.changed("view");
  }

  function listen() {
    const slider = $("#target-slider");
    slider.addEventListener("input", () => setTarget(fromSlider(Number(slider.value))));
    const field = $("#target-value");
    field.addEventListener("change", () => setTarget(Number.parseFloat(field.value)));
    if (payload.figure.layout.meta.others) {
      $("#convergence").on("plotly_click", ({ points }) => {
        const { name } = points[0].data.meta;
        set({ only: view.only === name ? null : name });
      });
    }
    $("#convergence").on("plotly_relayout", (change) => {
      const ends = [change["shapes[0].y0"], change["shapes[0].y1"]];
      if (ends.some((end) => end === undefined)) return;
      setTarget(Number(Math.max(...ends.map(Number)).toPrecision(3)));
    });
  }

  function set(changes) {
    Object.assign(view, changes);
    return page.changed("view");
  }

  const choices = {
    x: (x) => set({ x }),
    y: (y) => set({ y, log: null, target: payload.curves.columns[y].target }),
    scale: (scale) => set({ log: scale === "log" }),
  };

  const changed = (what) => (what === "view" || what === "hidden" ? draw() : undefined);
  return { draw, listen, choices, changed, setTarget };
});
