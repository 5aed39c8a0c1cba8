// SPDX-License-Identifier: Apache-2.0
// Curves and the heat map of a sweep. DATA: keys, settings (values by key), figures ([arm, name, unit]), cells ([link, block, id]),
// points ([setting, figure, cell, value]).
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 6;
const UNITS = { k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };

function element(name, attributes, parent, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

const TIMES = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600 };

function unitOf(text) {
  return /[a-z]*$/i.exec(text.trim())[0];
}

// A size, a time or a number as a number, to put values in their order; NaN for a word. Among times "m" is a minute.
function number(text, amongTimes) {
  const found = /^([0-9][0-9_]*\.?[0-9]*)\s*([a-z]*)$/i.exec(text.trim());
  if (!found) return NaN;
  const value = Number(found[1].replaceAll("_", "")), unit = found[2].toLowerCase();
  if (unit === "") return value;
  if (unit in TIMES) return value * TIMES[unit];
  if (amongTimes && unitOf(text) === "m") return value * TIMES.min;
  return value * (UNITS[unit[0]] ?? NaN);
}

function shown(value, unit) {
  if (unit === "us") {
    if (value >= 1e6) return `${(value / 1e6).toPrecision(3)} s`;
    return value >= 1e3 ? `${(value / 1e3).toPrecision(3)} ms` : `${value.toPrecision(3)} µs`;
  }
  const text = Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : Number(value.toPrecision(3)).toString();
  return unit === "transactions/s" ? `${text}/s` : text;
}

const last = (key) => key.split(".").pop();
const typical = (values) => values.every((v) => v > 0)
  ? Math.exp(values.reduce((sum, v) => sum + Math.log(v), 0) / values.length)
  : values.reduce((sum, v) => sum + v, 0) / values.length;
const several = new Set(DATA.figures.map((figure) => figure[0])).size > 1;
const named = ([arm, name]) => several ? `${name}, ${arm}` : name;

// The different values of a key, in the order of their numbers, or of the file.
function valuesOf(key) {
  const values = [...new Set(DATA.settings.map((setting) => setting.values[key]))];
  const amongTimes = values.some((value) => unitOf(value) in TIMES);
  const of = (value) => number(value, amongTimes);
  return values.every((value) => !Number.isNaN(of(value))) ? values.sort((a, b) => of(a) - of(b)) : values;
}

function choice(parent, label, options, chosen, changed) {
  const box = document.createElement("label"), select = document.createElement("select");
  box.append(label, select);
  options.forEach(([value, text]) => select.add(new Option(text, value, false, value === chosen)));
  select.addEventListener("change", () => changed(Number(select.value)));
  parent.append(box);
}

function ticks(low, high) {
  const span = high - low || Math.abs(high) || 1, step = 10 ** Math.floor(Math.log10(span / 4));
  const wide = [1, 2, 5, 10].map((by) => by * step).find((by) => span / by <= 5);
  const found = [];
  for (let at = Math.ceil(low / wide) * wide; at <= high + wide * 1e-9; at += wide) found.push(at);
  return found;
}

const keys = DATA.keys.map((key, place) => place).filter((place) => valuesOf(place).length > 1);
const first = Math.max(0, DATA.figures.findIndex((figure) => figure[1] === "throughput"));
const state = { figure: first, x: keys[0] ?? 0, heat: first, across: keys[0] ?? 0, down: keys[1] ?? 0 };
const [curves, heat] = document.querySelectorAll("#curves figure");

// Whether a key has one value for each value of another: one that follows it, or is paired with it.
function follows(key, other) {
  const seen = new Map();
  return DATA.settings.every(({ values }) => {
    if (!seen.has(values[other])) seen.set(values[other], values[key]);
    return seen.get(values[other]) === values[key];
  });
}

// Cells by what is on the x axis and by all else that differs of itself.
function drawCurves() {
  const plot = curves.querySelector(".plot"), legend = curves.querySelector(".legend"), figure = DATA.figures[state.figure];
  plot.replaceChildren();
  legend.replaceChildren();
  curves.querySelector(".what").textContent = figure ? named(figure) : "Nothing was measured yet";
  if (!figure) return;
  const points = DATA.points.filter((point) => point[1] === state.figure);
  const xs = DATA.keys.length ? valuesOf(state.x) : [""];
  const others = keys.filter((key, place) => key !== state.x && !follows(key, state.x) && !keys.slice(0, place).some((other) => other !== state.x && follows(key, other)));
  const line = (setting) => others.map((key) => `${last(DATA.keys[key])}=${DATA.settings[setting].values[key]}`).join(" ");
  const lines = [...new Set(DATA.settings.map((_, place) => line(place)))];
  const width = Math.max(280, plot.clientWidth), height = 320, left = 70, right = 18, top = 14, bottom = 46;
  const values = points.map((point) => point[3]);
  const low = Math.min(0, ...values), high = Math.max(...values, low + 1e-9) * 1.05;
  const x = (place) => left + (xs.length < 2 ? .5 : (place + .3) / (xs.length - .4)) * (width - left - right);
  const y = (value) => top + (1 - (value - low) / (high - low)) * (height - top - bottom);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": `${named(figure)} by ${DATA.keys[state.x] ?? ""}` }, plot);
  for (const at of ticks(low, high)) {
    element("line", { class: "grid", x1: left, x2: width - right, y1: y(at), y2: y(at) }, svg);
    element("text", { x: left - 8, y: y(at) + 4, "text-anchor": "end" }, svg, shown(at, figure[2]));
  }
  const every = Math.ceil(xs.length / Math.max(1, Math.floor((width - left - right) / 58)));
  xs.forEach((value, place) => {
    if (place % every === 0) element("text", { x: x(place), y: height - bottom + 18, "text-anchor": "middle" }, svg, value.length > 12 ? `${value.slice(0, 11)}…` : value);
  });
  element("text", { class: "title", x: width - right, y: height - 8, "text-anchor": "end" }, svg, last(DATA.keys[state.x] ?? ""));
  lines.forEach((name, place) => {
    const colour = place % COLOURS, own = points.filter((point) => line(point[0]) === name);
    const at = (value) => own.filter((point) => (DATA.settings[point[0]].values[state.x] ?? "") === value).map((point) => point[3]);
    const through = xs.map((value, n) => [n, at(value)]).filter(([, found]) => found.length);
    const path = through.map(([n, found], step) => `${step ? "L" : "M"}${x(n).toFixed(1)} ${y(typical(found)).toFixed(1)}`).join("");
    element("path", { class: `line s${colour} dash${Math.min(4, Math.floor(place / COLOURS))}`, d: path }, svg);
    for (const [setting, , cell, value] of own) {
      const [link, block, id] = DATA.cells[cell];
      const anchor = element(link ? "a" : "g", link ? { href: link } : {}, svg);
      const shift = lines.length > 1 ? (place - (lines.length - 1) / 2) * Math.min(5, 40 / lines.length) : 0;
      const dot = element("circle", { class: `cell f${colour}`, r: 4.5, cx: (x(xs.indexOf(DATA.settings[setting].values[state.x] ?? "")) + shift).toFixed(1), cy: y(value).toFixed(1) }, anchor);
      element("title", {}, dot, `${shown(value, figure[2])}, block ${block}, cell ${id}`);
    }
    if (name) {
      const item = document.createElement("span"), mark = element("svg", { width: 18, height: 10 });
      element("line", { class: `line s${colour} dash${Math.min(4, Math.floor(place / COLOURS))}`, x1: 0, x2: 18, y1: 5, y2: 5 }, mark);
      item.append(mark, name);
      legend.append(item);
    }
  });
}

// Typical values over two keys; of all other keys the typical one.
function drawHeat() {
  if (keys.length < 2 || !DATA.figures.length) return;
  heat.hidden = false;
  const plot = heat.querySelector(".plot"), figure = DATA.figures[state.heat];
  plot.replaceChildren();
  heat.querySelector(".what").textContent = `${named(figure)}, over two keys`;
  const across = valuesOf(state.across), down = valuesOf(state.down);
  const of = (column, row) => DATA.points.filter(([setting, which]) => which === state.heat
    && DATA.settings[setting].values[state.across] === column && DATA.settings[setting].values[state.down] === row).map((point) => point[3]);
  const table = down.map((row) => across.map((column) => of(column, row))).map((row) => row.map((found) => found.length ? typical(found) : null));
  const all = table.flat().filter((value) => value !== null);
  if (!all.length) return;
  const [low, high] = [Math.min(...all), Math.max(...all)], isLog = low > 0;
  const step = (value) => {
    const place = isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    return Math.min(3, Math.floor((Number.isFinite(place) ? place : 0) * 4));
  };
  const width = Math.max(280, plot.clientWidth), left = 88, top = 8, side = 38, bottom = 44;
  const height = top + side * down.length + bottom, wide = (width - left - 8) / across.length;
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": heat.querySelector(".what").textContent }, plot);
  const short = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
  down.forEach((row, r) => {
    element("text", { x: left - 8, y: top + side * (r + .5) + 4, "text-anchor": "end" }, svg, short(row, 11));
    across.forEach((column, c) => {
      const value = table[r][c], shade = value === null ? "none" : `heat${step(value)}`;
      const box = element("rect", { class: shade, x: left + wide * c, y: top + side * r, width: Math.max(1, wide - 2), height: side - 2, rx: 3 }, svg);
      element("title", {}, box, value === null ? "nothing measured" : `${last(DATA.keys[state.across])}=${column} ${last(DATA.keys[state.down])}=${row}: ${shown(value, figure[2])}`);
      if (value !== null && wide > 58) element("text", { class: `in${step(value)}`, x: left + wide * (c + .5), y: top + side * (r + .5) + 4, "text-anchor": "middle", "pointer-events": "none" }, svg, shown(value, figure[2]));
    });
  });
  const every = Math.ceil(across.length / Math.max(1, Math.floor((width - left) / 58)));
  across.forEach((column, c) => {
    if (c % every === 0) element("text", { x: left + wide * (c + .5), y: top + side * down.length + 16, "text-anchor": "middle" }, svg, short(column, Math.max(4, Math.floor(wide * every / 8))));
  });
  element("text", { class: "title", x: width - 8, y: height - 8, "text-anchor": "end" }, svg, `${last(DATA.keys[state.across])} →, ${last(DATA.keys[state.down])} ↓`);
}

function controls() {
  const figures = DATA.figures.map((figure, place) => [place, named(figure)]);
  const byKey = keys.map((key) => [key, last(DATA.keys[key])]);
  const own = curves.querySelector(".choices"), other = heat.querySelector(".choices");
  if (figures.length > 1) choice(own, "figure", figures, state.figure, (place) => { state.figure = place; drawCurves(); });
  if (keys.length > 1) choice(own, "over", byKey, state.x, (key) => { state.x = key; drawCurves(); });
  if (keys.length < 2) return;
  if (figures.length > 1) choice(other, "figure", figures, state.heat, (place) => { state.heat = place; drawHeat(); });
  choice(other, "across", byKey, state.across, (key) => { state.across = key; drawHeat(); });
  choice(other, "down", byKey, state.down, (key) => { state.down = key; drawHeat(); });
}

controls();
const draw = () => { drawCurves(); drawHeat(); };
draw();
let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; draw(); } });
