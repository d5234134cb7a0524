// The convergence figure: its axes and its target, which other panels follow.
page.add("convergence", (payload) => {
  const $ = (selector) => document.querySelector(selector);
  const { data, view } = page;
  const { parts } = payload;
  const place = (part) => (part ? `convergence-${part}` : "convergence");
  const several = parts.length > 1;
  let axis = null; // range and scale of the y axis as it is drawn, the same in all cases

  // The view of a case, with the target of its own.
  const viewOf = (part) => ({ ...view, target: view.targets[part] });

  async function draw() {
    axis = curves.common(parts, view);
    for (const [part, { figure, curves: held, names }] of parts.entries()) {
      if (!figure) continue; // of a fold that is not opened
      if (several) showReading(part);
      const made = curves.build(figure, held, names, viewOf(part), axis);
      await figures.draw(place(part), made, { shapePosition: true });
    }
    showTarget();
    page.press("scale", axis.log ? "log" : "linear");
    $('[data-scale="log"]').disabled = !axis.canLog;
  }

  // The answer of a case tells of the first view, so only another one needs words of its own.
  function showReading(part) {
    const held = document.getElementById(part ? `reading-${part}` : "reading");
    const first = ["x", "y", "only"].every((key) => view[key] === data.view[key]) && view.targets[part] === data.view.targets[part];
    held.textContent = first ? held.dataset.first : curves.reading(parts[part].curves, parts[part].names, viewOf(part));
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
    const has = view.target !== null && !several;
    $("#target").hidden = !has;
    if (!has) return;
    $("#target-value").value = units.target(view.target).replaceAll(",", "");
    $("#target-slider").value = toSlider(view.target);
    $("#target-slider").setAttribute("aria-valuetext", units.target(view.target));
  }

  function setTarget(value, part = 0) {
    if (Number.isFinite(value)) view.targets[part] = value;
    return page.changed("view");
  }

  function listen() {
    const slider = $("#target-slider");
    slider.addEventListener("input", () => setTarget(fromSlider(Number(slider.value))));
    const field = $("#target-value");
    field.addEventListener("change", () => setTarget(Number.parseFloat(field.value)));
    for (const [part, { figure }] of parts.entries()) {
      if (!figure) continue;
      if (figure.layout.meta.others) {
        figures.on(place(part), "plotly_click", ({ points }) => {
          const { name } = points[0].data.meta;
          set({ only: view.only === name ? null : name });
        });
      }
      figures.on(place(part), "plotly_relayout", (change) => {
        const ends = [change["shapes[0].y0"], change["shapes[0].y1"]];
        if (ends.some((end) => end === undefined)) return;
        setTarget(Number(Math.max(...ends.map(Number)).toPrecision(3)), part);
      });
    }
  }

  function set(changes) {
    Object.assign(view, changes);
    return page.changed("view");
  }

  const choices = {
    x: (x) => set({ x }),
    y: (y) => set({ y, log: null, targets: parts.map(({ curves: held }) => held.columns[y].target) }),
    scale: (scale) => set({ log: scale === "log" }),
    smooth: (weight) => set({ smooth: Number(weight) }),
    lines: (lines) => set({ seeds: lines === "seeds" }),
  };

  const changed = (what) => (what === "view" || what === "hidden" ? draw() : undefined);
  return { draw, listen, choices, changed, setTarget };
});
