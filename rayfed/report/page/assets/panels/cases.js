// Algorithms by case, of the column that is chosen to be shown.
page.add("cases", (payload) => {
  async function draw() {
    const { view } = page;
    const made = payload[view.y];
    if (!made) return;
    document.getElementById("pivot").innerHTML = made.table;
    page.say("ranks-title", made.ranked);
    if (document.getElementById("levels")) await figures.drawOrClear("levels", figures.without(made.levels, view.hidden));
    if (document.getElementById("ranks")) await figures.drawOrClear("ranks", made.ranks);
  }

  return { draw, changed: (what) => (what === "view" || what === "hidden" ? draw() : undefined) };
});
