// Follows the studies: what has changed is fetched and put in place, and what the reader did stays.
const live = (() => {
  const { view } = document.body.dataset;
  const mine = () => JSON.parse(document.body.dataset.studies ?? "null");
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  let busy = false;
  let again = false;
  let wake = () => {}; // ends the rest between two answers

  // Puts new text in the place of the old: drawn figures move over, and so do folds, scrolls and focus.
  // What it returns is called once the figures are drawn.
  function replace(html) {
    const main = document.querySelector("main");
    const made = document.createElement("main");
    made.innerHTML = html;
    const top = window.scrollY;
    const stay = hold(main);
    document.documentElement.style.overflowAnchor = "none"; // the browser would move it a second time
    made.style.minHeight = `${main.offsetHeight}px`; // a page that is short for a moment scrolls up
    const fold = (one) => one.parentElement.dataset.more ?? one.textContent;
    const open = new Set($$("details[open] > summary", main).map(fold));
    for (const one of $$("details > summary", made)) if (open.has(fold(one))) one.parentElement.open = true;
    for (const place of $$(".plot", made)) {
      const drawn = main.querySelector(`#${CSS.escape(place.id)}.js-plotly-plot`);
      if (drawn) place.replaceWith(drawn);
    }
    const scrolls = $$(".scroll", main).map((one) => [one.scrollLeft, one.scrollTop]);
    const typed = [...fields(main)].filter(([, one]) => one.value !== one.defaultValue).map(([key, one]) => [key, one.value]);
    const focus = focused(main);
    main.replaceWith(made);
    $$(".scroll", made).forEach((one, k) => scrolls[k] && one.scrollTo(...scrolls[k]));
    window.scrollTo(window.scrollX, top);
    stay();
    for (const [key, value] of typed) {
      const field = fields(made).get(key);
      if (field) field.value = value;
    }
    focus(made);
    return () => {
      made.style.minHeight = "";
      stay();
      document.documentElement.style.overflowAnchor = "";
    };
  }

  // Keeps the first figure in sight where it is in a window that was scrolled, whatever grows above it.
  function hold(main) {
    const inSight = ({ top, bottom }) => bottom > 0 && top < window.innerHeight;
    const figure = $$(".plot", main).find((one) => inSight(one.getBoundingClientRect()));
    const place = () => figure && document.getElementById(figure.id)?.getBoundingClientRect().top + window.scrollY;
    let before = place();
    return () => {
      const moved = place() - before;
      if (window.scrollY && moved) window.scrollBy(0, moved);
      before = place();
    };
  }

  // The fields of the forms of studies, by study and name.
  const fields = (main) =>
    new Map($$("[data-study] [name]", main).map((one) => [`${one.closest("[data-study]").dataset.study} ${one.name}`, one]));

  // What finds the element that has the focus in other text of the same shape.
  function focused(main) {
    const at = document.activeElement;
    if (!main.contains(at)) return () => {};
    const key = at.id ? `#${CSS.escape(at.id)}` : at.tagName.toLowerCase();
    const place = $$(key, main).indexOf(at);
    const range = at.selectionStart == null ? null : [at.selectionStart, at.selectionEnd];
    return (made) => {
      const found = $$(key, made)[place];
      found?.focus({ preventScroll: true });
      if (found && range && found.type !== "number") found.setSelectionRange?.(...range);
    };
  }

  async function update({ main, data, colours, title, scatter: dots }) {
    if (data && typeof page === "undefined") return void location.reload(); // nothing could be shown until now
    const settle = replace(main);
    if (title) document.title = title;
    if (colours) document.getElementById("colours").textContent = colours;
    if (data) await page.renew(data);
    settle();
    overview.start(dots);
    news.note();
  }

  // What the reader has open of a view, as the query of its address.
  function query() {
    const made = new URLSearchParams(location.search);
    if (typeof page !== "undefined") for (const [key, value] of page.asked()) made.append(key, value);
    return made;
  }

  // Fetches the view as it is now; what the reader has just opened waits for no rest.
  async function refresh(now = false) {
    if (busy) {
      again = true;
      if (now) wake();
      return;
    }
    busy = true;
    let rest = 0; // what a view costs the server decides how often it is made
    let hurry = false;
    wake = () => (hurry = true);
    try {
      const answer = await fetch(`/${view}.json?${query()}`).catch(() => null);
      rest = Number(answer?.headers.get("Rayfed-Rest") ?? 0);
      if (answer?.ok) await update(await answer.json());
      else if (answer) say((await answer.json()).error);
    } finally {
      if (!hurry) {
        await new Promise((done) => {
          wake = done;
          setTimeout(done, 1000 * rest);
        });
      }
      busy = false; // whatever went wrong, the next rows are shown
    }
    if (again) {
      again = false;
      refresh();
    }
  }

  const say = (text) => (document.getElementById("news").textContent = text);

  // A browser opens six connections to a server, for all tabs together: one tab listens and tells
  // the others; where it is closed the next one does.
  function listen() {
    const tabs = new BroadcastChannel("rayfed");
    tabs.addEventListener("message", ({ data }) => hear(data));
    const tell = (heard) => (tabs.postMessage(heard), hear(heard));
    const follow = () => {
      const source = new EventSource("/events");
      source.addEventListener("open", () => tell({ said: "" }));
      source.addEventListener("error", () => tell({ said: "The server does not answer; what is shown is what was last read" }));
      source.addEventListener("message", ({ data }) => tell({ changed: JSON.parse(data) }));
      window.addEventListener("pagehide", () => source.close());
      return new Promise(() => {});
    };
    navigator.locks ? navigator.locks.request("rayfed", follow) : follow();
  }

  function hear({ said, changed }) {
    if (said !== undefined) return void say(said);
    const studies = mine();
    if (!studies || changed.some((key) => studies.includes(key))) refresh();
  }

  // ---- what has come about since the reader looked away, in words -----------------------------

  const news = (() => {
    const VERBS = { finished: "finished", failed: "failed", stopped: "stopped", interrupted: "was interrupted", running: "began" };
    const NUMBERS = new Intl.RelativeTimeFormat("en");
    let seen = null; // what stood there when the reader looked away, and how it went on
    let told = [];

    // The algorithms of a view, each at the target if all of its runs are.
    function algorithms() {
      if (typeof page === "undefined") return [];
      const { y, target } = page.view;
      return page.parts().slice(0, 1).flatMap(({ names, curves: { runs, columns } }) =>
        names.map(({ name }) => {
          const mine = runs.filter((run) => run.name === name);
          const at = (run) => series.crossing(run, "round", y, target, columns[y].better) !== null;
          return { key: name, name, target: `${y} ${target}`, reached: target !== null && mine.length > 0 && mine.every(at) };
        }),
      );
    }

    const standing = () => new Map([...overview.standing(), ...algorithms()].map((one) => [one.key, one]));

    function note() {
      if (!seen) return;
      const now = standing();
      for (const [key, one] of now) {
        const before = seen.get(key);
        if (VERBS[one.status] && before?.status !== one.status) {
          told = told.filter((earlier) => earlier.key !== key); // one that began and finished has finished
          told.push({ key, name: one.name, what: VERBS[one.status], at: Date.now() });
        }
        if (one.reached && before && !before.reached && before.target === one.target) told.push({ name: one.name, what: "passed the target", at: Date.now() });
      }
      seen = now;
    }

    function ago(at) {
      const minutes = Math.round((Date.now() - at) / 60_000);
      if (minutes < 1) return "just now";
      return minutes < 60 ? NUMBERS.format(-minutes, "minute") : NUMBERS.format(-Math.round(minutes / 60), "hour");
    }

    function tell() {
      const parts = [...new Set(told.map(({ what }) => what))].map((what) => {
        const those = told.filter((one) => one.what === what);
        const [who, last] = those.length > 1 ? [`${those.length} runs`, "the last "] : [those[0].name, ""];
        return `${who} ${what} ${last}${ago(those.at(-1).at)}`;
      });
      if (parts.length) say(`Since you looked away: ${parts.join(", ")}`);
    }

    document.addEventListener("visibilitychange", () => {
      if (document.hidden) [seen, told] = [standing(), []];
      else if (seen) (tell(), (seen = null));
    });

    return { note };
  })();

  // The page that is saved opens with the reader's choices.
  document.querySelector("[data-save-view]")?.addEventListener("click", ({ currentTarget }) => {
    const address = new URL(currentTarget.href);
    address.searchParams.set("at", location.hash.slice(1));
    currentTarget.href = address;
  });

  listen();
  return { refresh, say };
})();
overview.start();
