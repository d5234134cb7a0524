// Numbers as texts, as in rayfed/report/read/units.py.
const units = (() => {
  const trim = (text) => (text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text);

  const grouped = (text) => {
    const [whole, part] = text.split(".");
    const spaced = whole.replace(/\B(?=(\d{3})+$)/g, ",");
    return part === undefined ? spaced : `${spaced}.${part}`;
  };

  function number(value, digits = 3) {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "-" : value > 0 ? "∞" : "-∞";
    if (value === 0) return "0";
    const rounded = Number(value.toExponential(digits - 1));
    const size = Math.abs(rounded);
    if (size < 1e-3 || size >= 1e6) {
      const [mantissa, exponent] = rounded.toExponential(digits - 1).split("e");
      return `${trim(mantissa)}e${Number(exponent)}`;
    }
    const places = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
    return trim(grouped(rounded.toFixed(places)));
  }

  const target = (value) => number(value, 6); // rounded further it may be another one

  function count(value) {
    if (!Number.isFinite(value)) return "-";
    const whole = Number.isInteger(value) || Math.abs(value) >= 1000;
    return grouped(value.toFixed(whole ? 0 : 1));
  }

  const LONG = [
    [86400, "d", 3600, "h"],
    [3600, "h", 60, "min"],
    [60, "min", 1, "s"],
  ];

  function duration(seconds) {
    if (!Number.isFinite(seconds)) return "-";
    if (seconds === 0) return "0 s";
    if (seconds < 0.9995) return `${number(seconds * 1000, 2)} ms`;
    if (seconds < 59.5) return `${number(seconds, 2)} s`;
    for (const [large, name, small, part] of LONG) {
      const whole = Math.round(seconds / small);
      if (whole * small < large) continue;
      const per = large / small;
      const rest = whole % per ? ` ${whole % per} ${part}` : "";
      return `${Math.floor(whole / per)} ${name}${rest}`;
    }
    return "-";
  }

  const SIZES = ["B", "kB", "MB", "GB", "TB", "PB"];
  const ENERGIES = ["J", "kJ", "MJ", "GJ", "TJ", "PJ"];

  function metric(amount, names) {
    if (!Number.isFinite(amount)) return "-";
    let step = 0;
    while (step < names.length - 1 && Number(amount.toPrecision(2)) >= 1000) {
      amount /= 1000;
      step += 1;
    }
    return `${number(amount, amount >= 100 ? 3 : 2)} ${names[step]}`;
  }

  const size = (octets) => metric(octets, SIZES);
  const energy = (joules) => metric(joules, ENERGIES);

  function clock(x, value) {
    if (x === "time_s") return duration(value);
    if (x === "bytes_up") return size(value);
    if (x === "energy_j") return energy(value);
    if (x === "epsilon") return `epsilon ${number(value)}`;
    const one = { round: "round", updates: "update", communications: "communication" }[x];
    return `${count(value)} ${one}${value === 1 ? "" : "s"}`;
  }

  return { number, target, count, duration, size, energy, clock };
})();
