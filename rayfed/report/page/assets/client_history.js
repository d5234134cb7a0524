// The history of a client in the chosen run, in every place for it.
const clientHistory = (() => {
  const STATUSES = { used: "Used", late: "Late", dropped: "Dropped out" };

  let current = null; // the shown client
  let asked = 0; // number of requests: earlier answers are out of date

  const chosen = () => page.data.panels.timeline.histories[page.view.run];

  // names of clients by id, where the data give them
  const called = (client) => chosen().names[client] ?? client;

  // the id of a client that is given by name or by id
  function numbered(text) {
    const named = Object.entries(chosen().names).find(([, name]) => name === text);
    return Number.parseInt(named ? named[0] : text, 10);
  }

  function listed(rounds) {
    const shown = rounds.slice(0, 40).join(", ");
    return rounds.length > 40 ? `${shown} and ${rounds.length - 40} more` : shown;
  }

  // A page holds the first events of all clients; of a live one the server is asked for all of one.
  async function fetched(client) {
    const { key } = page.data.runs[page.view.run];
    return (await fetch(`/client.json?${new URLSearchParams({ run: key, client })}`)).json();
  }

  async function rounds(client) {
    const events = chosen().events ?? (await fetched(client).catch(() => ({ error: "The server does not answer" })));
    if (events.error) return [events.error];
    const lines = Object.entries(STATUSES).map(([status, words]) => {
      const matches = (_, i) => events.client[i] === client && events.status[i] === status;
      const numbers = [...new Set(events.round.filter(matches))];
      if (!numbers.length) return "";
      const many = numbers.length > 1 ? "s" : "";
      return `${words} in ${numbers.length} round${many}: ${listed(numbers)}.`;
    });
    if (events.until) lines.push(`Shows rounds 1 to ${events.until}.`);
    return lines.filter((line) => line);
  }

  function facts(client) {
    const about = chosen().clients;
    const at = about.client.indexOf(client);
    if (at < 0) return "this page has no data of it";
    const value = (column) => about[column]?.[at] ?? NaN;
    const parts = [
      `${units.count(value("samples"))} samples`,
      `${units.duration(value("speed_s"))} a step`,
      `selected ${units.count(value("selected"))} times, used ${units.count(value("used"))} times`,
    ];
    for (const column of ["loss", "accuracy"]) {
      if (Number.isFinite(value(column))) parts.push(`${column} ${units.number(value(column))}`);
    }
    if (value("label_share") > 0) {
      const label = chosen().labels[value("label")];
      parts.push(`${units.number(100 * value("label_share"), 2)} % of its rows of label ${label}`);
    }
    return parts.join(", ");
  }

  function clear() {
    current = null;
    asked += 1;
    document.querySelectorAll(".history").forEach((place) => place.replaceChildren());
  }

  function write(lines) {
    for (const place of document.querySelectorAll(".history")) {
      for (const line of lines) place.appendChild(document.createElement("p")).textContent = line;
    }
  }

  function show(client) {
    clear();
    current = client;
    const request = asked;
    document.getElementById("client-number").value = called(client);
    const { name, seed } = page.data.runs[page.view.run];
    write([`Client ${called(client)} with ${name}, seed ${seed}: ${facts(client)}.`]);
    rounds(client).then((lines) => asked === request && write(lines));
    return page.changed("client");
  }

  const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

  // Moves to another client, from the fastest to the slowest.
  function go(event) {
    const step = STEPS[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const { client } = chosen().clients;
    const at = current === null ? -Math.sign(step) : client.indexOf(current);
    show(client[Math.min(Math.max(at + step, 0), client.length - 1)]);
  }

  return { show, clear, numbered, go, current: () => current };
})();
