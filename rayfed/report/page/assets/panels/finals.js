// Final values of the column that is chosen to be shown.
page.add("finals", (payload) => {
  function draw() {
    const { figure, columns } = page.ofCase(payload) ?? {};
    const chosen = columns?.[page.view.y];
    if (!chosen) return Promise.resolve();
    const made = structuredClone(figure);
    for (const trace of made.data) {
      trace.x = chosen[trace.meta.part][trace.meta.name] ?? [];
      trace.y = trace.x.map(() => trace.y[0]);
    }
    const { title, tickfont, ...axis } = chosen.axis;
    const { xaxis } = made.layout;
    Object.assign(xaxis, axis, { title: { ...xaxis.title, ...title }, tickfont: { ...xaxis.tickfont, ...tickfont } });
    return figures.draw("finals", made);
  }

  return { draw, changed: (what) => (what === "view" || what === "case" ? draw() : undefined) };
});
