// Algorithms by case, of the column that is chosen to be shown.
page.add("cases", (payload) => {
  async function draw() {
    const { view, data } = page;
    const made = payload[view.y];
    if (!made) return;
    document.getElementById("pivot").innerHTML = made.table;
    // The answer on top tells of the first column.
    document.getElementById("cases-title").hidden = view.y === data.view.y;
    page.say("cases-title", made.title);
    page.say("ranks-title", made.ranked);
    if (document.getElementById("levels")) await figures.drawOrClear("levels", figures.without(made.levels, view.hidden));
    if (document.getElementById("ranks")) await figures.drawOrClear("ranks", made.ranks);
  }

  return { draw, changed: (what) => (what === "view" || what === "hidden" ? draw() : undefined) };
});
