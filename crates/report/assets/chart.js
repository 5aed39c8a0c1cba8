// SPDX-License-Identifier: Apache-2.0
// A small chart kit: axes, lines, a cursor. Draws SVG; colours come from the style sheet, so that light and dark need no redraw.
const NS = "http://www.w3.org/2000/svg";

function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function draw(parent, name, attributes, text) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// --- figures for people -------------------------------------------------------------------------------------------------

function digits(value) {
  const size = Math.abs(value);
  if (size >= 999.5) return Math.round(value).toLocaleString("en-US");
  if (size >= 99.95) return value.toFixed(0);
  if (size >= 9.995) return value.toFixed(1);
  return size >= 0.0995 || size === 0 ? value.toFixed(2) : value.toPrecision(2);
}

const plain = (text) => text.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");

const SHOW = {
  us(value) {
    if (value === 0) return "0";
    if (value < 1) return digits(value * 1e3) + " ns";
    if (value < 999.5) return digits(value) + " µs";
    if (value < 999500) return digits(value / 1e3) + " ms";
    return value < 120e6 ? digits(value / 1e6) + " s" : digits(value / 60e6) + " min";
  },
  bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (Math.abs(value) >= 1023.5 && unit < units.length - 1) { value /= 1024; unit++; }
    return digits(value) + " " + units[unit];
  },
  count: (value) => (value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en-US") : digits(value)),
  per_second: (value) => SHOW.count(value) + " /s",
  cores: (value) => digits(value) + " CPUs",
  share: (value) => (value * 100).toFixed(value && value < 0.00095 ? 2 : 1) + " %",
  seconds: (value) => value.toFixed(1) + " s",
  one_in: (value) => plain((100 - 100 / value).toFixed(Math.max(0, Math.ceil(Math.log10(value)) - 1))) + " %",
};
// on an axis, without the zeros at the end
const tick = (unit, value) => plain(SHOW[unit](value).replace(/ (\/s|CPUs)$/, ""));

// --- scales -------------------------------------------------------------------------------------------------------------

function linear(from, to, unit) {
  if (!(to > from)) to = from + 1;
  const base = unit === "bytes" ? 1024 ** Math.floor(Math.log2(Math.max(to, 1)) / 10) : 1;
  return {
    from, to,
    at: (value) => (value - from) / (to - from),
    value: (at) => from + at * (to - from),
    ticks(most) {
      const rough = (to - from) / base / Math.max(1, most);
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999) * power * base;
      const ticks = [];
      for (let k = Math.ceil(from / step - 1e-9); k * step <= to + step * 1e-9; k++) ticks.push(k * step || 0); // never -0
      return ticks;
    },
  };
}

function logarithmic(from, to) {
  const low = Math.log10(from), high = Math.max(Math.log10(to), low + 0.1);
  return {
    from, to: 10 ** high,
    at: (value) => (Math.log10(Math.max(value, from)) - low) / (high - low),
    value: (at) => 10 ** (low + at * (high - low)),
    // 1, 2, 5 where there is room, else powers of ten, else every second or third of them
    ticks(most) {
      const inside = (value) => value >= from * 0.9999 && value <= 10 ** high * 1.0001;
      const of = (factors, stride) => {
        const ticks = [];
        for (let k = Math.floor(low / stride) * stride; k <= high; k += stride) for (const f of factors) ticks.push(f * 10 ** k);
        return ticks.filter(inside);
      };
      const choices = [of([1, 2, 5], 1), of([1, 3], 1), of([1], 1), of([1], 2), of([1], 3)];
      return choices.find((ticks) => ticks.length <= most) || choices[4];
    },
  };
}

// --- a frame with axes, and a cursor -------------------------------------------------------------------------------------

// options: height, top, x, y (scales), x_unit, y_unit, x_title, y_title, label (for those who cannot see it)
function frame(parent, options) {
  const plot = make("div", { class: "plot" });
  parent.append(plot);
  const width = Math.max(240, plot.clientWidth);
  const margin = { left: 62, right: 14, top: options.top || 20, bottom: options.x_title ? 40 : 24 };
  const height = options.height + margin.top + margin.bottom;
  const inner = { width: width - margin.left - margin.right, height: options.height };
  const svg = draw(plot, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", tabindex: 0, "aria-label": options.label });
  const area = draw(svg, "g", { transform: `translate(${margin.left} ${margin.top})` });
  const x = (value) => options.x.at(value) * inner.width;
  const y = (value) => (1 - options.y.at(value)) * inner.height;
  const back = draw(area, "g", {});
  for (const value of options.y.ticks(Math.max(2, Math.floor(inner.height / 34)))) {
    draw(area, "line", { class: "grid", x1: 0, x2: inner.width, y1: y(value), y2: y(value) });
    draw(area, "text", { x: -8, y: y(value) + 4, "text-anchor": "end" }, tick(options.y_unit, value));
  }
  let free_from = -Infinity; // a label that would touch the one before it is left out
  for (const value of options.x.ticks(Math.max(2, Math.floor(inner.width / 56)))) {
    const label = tick(options.x_unit, value), half = label.length * 3.4;
    draw(area, "line", { class: "grid", x1: x(value), x2: x(value), y1: 0, y2: inner.height });
    if (x(value) - half < free_from || x(value) + half > inner.width + margin.right) continue;
    draw(area, "text", { x: x(value), y: inner.height + 16, "text-anchor": "middle" }, label);
    free_from = x(value) + half + 8;
  }
  draw(area, "line", { class: "base", x1: 0, x2: inner.width, y1: inner.height, y2: inner.height });
  if (options.x_title) {
    const fits = options.x_title.length * 7 < inner.width + margin.left;
    draw(area, "text", { class: "title", x: inner.width, y: inner.height + 33, "text-anchor": "end" }, fits ? options.x_title : options.x_title.split(";")[0]);
  }
  if (options.y_title) draw(area, "text", { class: "title", x: 4 - margin.left, y: -8 }, options.y_title);
  return { plot, svg, area, back, x, y, inner, margin, width, scale: options.x };
}

function swatch(colour, kind) {
  const icon = document.createElementNS(NS, "svg");
  icon.setAttribute("width", 20); icon.setAttribute("height", 10); icon.setAttribute("aria-hidden", "true");
  if (kind === "bar") draw(icon, "rect", { class: `f${colour}`, width: 10, height: 10, x: 5, rx: 2 });
  else draw(icon, "line", { class: `line s${colour} ${kind || ""}`, x1: 0, x2: 20, y1: 5, y2: 5 });
  return icon;
}

function legend(figure, entries) {
  const box = figure.querySelector(".legend");
  box.replaceChildren(...entries.map((entry) => make("span", {}, swatch(entry.colour, entry.kind), entry.label)));
}

// points: [[x, y or null], ...]; null breaks the line
function path(f, points, classes) {
  let d = "", pen = false;
  for (const [px, py] of points) {
    if (py === null) { pen = false; continue; }
    d += `${pen ? "L" : "M"}${f.x(px).toFixed(1)} ${f.y(py).toFixed(1)}`;
    pen = true;
  }
  draw(f.area, "path", { class: `line ${classes}`, d });
}

// Charts of one group share their cursor. `stops`: sorted x values it may stand at; `rows(x)`: {where, rows: [{label, value, colour, kind}]}
const groups = {};

function cursor(f, group, stops, rows) {
  if (!stops.length) return;
  const members = (groups[group] ||= []);
  const line = draw(f.area, "line", { class: "cursor", y1: 0, y2: f.inner.height, visibility: "hidden" });
  const tip = make("div", { class: "tip", hidden: "", role: "status" });
  f.plot.append(tip);
  let index = -1;
  const place = (value) => {
    line.setAttribute("x1", f.x(value)); line.setAttribute("x2", f.x(value)); line.setAttribute("visibility", "visible");
  };
  const hide = () => { index = -1; tip.hidden = true; for (const m of members) m.line.setAttribute("visibility", "hidden"); };
  const show = (at) => {
    index = Math.max(0, Math.min(stops.length - 1, at));
    const value = stops[index], found = rows(value);
    for (const m of members) m.place(value);
    const lines = found.rows.map((row) => {
      const of = make("span", { class: "of" });
      if (row.colour !== undefined) of.append(swatch(row.colour, row.kind));
      of.append(row.label);
      return make("div", {}, of, make("b", {}, row.value));
    });
    tip.replaceChildren(make("span", { class: "where" }, found.where), ...lines);
    tip.hidden = false;
    const left = f.margin.left + f.x(value), room = f.plot.clientWidth;
    const wanted = left + 12 + tip.offsetWidth > room ? left - 12 - tip.offsetWidth : left + 12;
    tip.style.left = Math.max(0, Math.min(wanted, room - tip.offsetWidth)) + "px";
    tip.style.top = f.svg.offsetTop + f.margin.top + 4 + "px";
  };
  members.push({ line, place });
  f.svg.addEventListener("pointermove", (event) => {
    const box = f.svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) * (f.width / box.width) - f.margin.left) / f.inner.width;
    if (at < -0.02 || at > 1.02) return hide();
    show(nearest(stops, f.scale.value(at)));
  });
  f.svg.addEventListener("pointerleave", hide);
  f.svg.addEventListener("blur", hide);
  f.svg.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
    if (event.key === "Escape") return hide();
    if (!(event.key in steps)) return;
    event.preventDefault();
    const step = steps[event.key];
    show(index < 0 ? (step > 0 ? 0 : stops.length - 1) : index + step);
  });
}

function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low > 0 && value - sorted[low - 1] < sorted[low] - value ? low - 1 : low;
}

// --- layers -------------------------------------------------------------------------------------------------------------

// a single reading is as wide as a line
function area_between(f, t, from, to, lower, upper) {
  const x = (i) => f.x(t[i]).toFixed(1), right = (i) => (from === to ? (f.x(t[i]) + 2).toFixed(1) : x(i));
  let d = `M${x(from)} ${f.y(upper(from)).toFixed(1)}`;
  for (let i = from; i <= to; i++) d += `L${right(i)} ${f.y(upper(i)).toFixed(1)}`;
  for (let i = to; i >= from; i--) d += `L${i === to ? right(i) : x(i)} ${f.y(lower(i)).toFixed(1)}`;
  return `${d}L${x(from)} ${f.y(lower(from)).toFixed(1)}Z`;
}

function stripes(svg) {
  const pattern = draw(draw(svg, "defs", {}), "pattern", { id: "stripes", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  draw(pattern, "line", { class: "stripe", x1: 0, y1: 0, x2: 0, y2: 6 });
}
