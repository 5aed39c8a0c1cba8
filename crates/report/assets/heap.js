// SPDX-License-Identifier: Apache-2.0
// Heap profiles, drawn from DATA.profiles: layers over time, and flame graphs.

function heap_over_time(figure, data, index) {
  const box = figure.querySelector(".plots");
  box.replaceChildren();
  const sums = new Array(data.t.length).fill(0), tops = [];
  for (const layer of data.layers) {
    layer.v.forEach((value, i) => { sums[i] += value; });
    tops.push([...sums]);
  }
  const times = data.totals.map(([t]) => t);
  const from = Math.min(...times, ...data.t), to = Math.max(...times, ...data.t);
  const entries = [...data.layers].reverse().map((layer) => ({ label: layer.label, colour: `m${layer.colour}`, kind: "bar" }));
  legend(figure, entries);
  const x = linear(from, to, data.x_unit);
  const is_numbered = data.x_title === "snapshots", ticks = x.ticks;
  if (is_numbered) x.ticks = (most) => ticks(most).filter(Number.isInteger);
  const f = frame(box, {
    height: 280, x, y: linear(0, Math.max(1, ...sums, ...data.totals.map(([, bytes]) => bytes)) * 1.06, "bytes"),
    x_unit: data.x_unit, y_unit: "bytes", x_title: data.x_title, y_title: "",
    label: `The heap over time, in layers: ${data.layers.map((layer) => layer.label).join(", ")}`,
  });
  stripes(f.svg);
  data.layers.forEach((layer, nth) => {
    const upper = (i) => tops[nth][i], lower = (i) => (nth ? tops[nth - 1][i] : 0);
    const d = area_between(f, data.t, 0, data.t.length - 1, lower, upper);
    draw(f.area, "path", { class: `layer fm${layer.colour}`, d });
    if (layer.colour === 7) draw(f.area, "path", { fill: "url(#stripes)", d });
  });
  path(f, data.totals, "whole");
  cursor(f, `heap ${index}`, data.t.length ? data.t : times, (value) => {
    const at = nearest(data.t, value), whole = data.totals[nearest(times, value)][1];
    const rows = data.t.length ? data.layers.map((layer) => ({ label: layer.label, colour: `m${layer.colour}`, kind: "bar", value: SHOW.bytes(layer.v[at]) })) : [];
    const where = is_numbered ? `snapshot ${value}` : SHOW[data.x_unit](value);
    return { where, rows: [{ label: "heap", value: SHOW.bytes(whole) }, ...rows.reverse()] };
  });
}

// --- flame graph --------------------------------------------------------------------------------------------------------

const ROW = 19;

// of each box: where it begins, and which boxes are below it
function placed(flames) {
  const boxes = [], begun = [0];
  for (const [depth, label, bytes] of flames) {
    const x = begun[depth] || 0;
    begun.length = depth + 1;
    boxes.push({ depth, label, bytes, x, end: 0, colour: [...label].reduce((sum, c) => (sum * 31 + c.codePointAt(0)) % 9973, 7) % 6 });
    begun[depth] = x + bytes;
    begun[depth + 1] = x;
  }
  boxes.forEach((box, i) => {
    let end = i + 1;
    while (end < boxes.length && boxes[end].depth > box.depth) end++;
    box.end = end;
  });
  return boxes;
}

function flame_graph(figure, data) {
  const holder = figure.querySelector(".plots");
  const boxes = placed(data.flames);
  const total = boxes.filter((box) => box.depth === 0).reduce((sum, box) => sum + box.bytes, 0);
  const state = { focus: -1, searched: "" };
  const input = make("input", { type: "search", placeholder: "function", "aria-label": "Find functions by a part of their name" });
  const all = make("button", { type: "button", hidden: "" }, "show all");
  const found = make("span", {});
  const told = make("p", { class: "flame-told", role: "status" });
  const area = make("div", { class: "flame" });
  const tools = make("div", { class: "flame-tools" }, make("label", { class: "filter" }, "Find ", input), found, all);
  holder.replaceChildren(tools, area, told);
  const say = (box) => { told.textContent = box ? `${box.label}: ${SHOW.bytes(box.bytes)}, ${SHOW.share(box.bytes / total)} of the heap` : ""; };
  const redraw = () => {
    all.hidden = state.focus < 0;
    draw_boxes(area, boxes, total, state, say, (at) => { state.focus = at; redraw(); });
  };
  all.addEventListener("click", () => { state.focus = -1; redraw(); });
  area.addEventListener("keydown", (event) => { if (event.key === "Escape") { state.focus = -1; redraw(); } });
  input.addEventListener("input", () => {
    state.searched = input.value.trim().toLowerCase();
    let sum = 0, until = 0;
    boxes.forEach((box, i) => { // a function below itself counts once
      if (state.searched && i >= until && box.label.toLowerCase().includes(state.searched)) { sum += box.bytes; until = box.end; }
    });
    found.textContent = state.searched ? `${SHOW.bytes(sum)}, ${SHOW.share(sum / Math.max(1, total))} of the heap` : "";
    redraw();
  });
  redraw();
  return redraw;
}

function draw_boxes(area, boxes, total, state, say, focus) {
  area.replaceChildren();
  const width = Math.max(240, area.clientWidth);
  const zoomed = boxes[state.focus] || { x: 0, bytes: total, depth: 0 };
  const shown = boxes.map((box, i) => ({ box, i })).filter(({ box, i }) => {
    const is_above = box.x <= zoomed.x && box.x + box.bytes >= zoomed.x + zoomed.bytes && box.depth <= zoomed.depth;
    const is_below = i >= state.focus && box.x >= zoomed.x && box.x + box.bytes <= zoomed.x + zoomed.bytes;
    return (is_above || is_below) && (is_above || (box.bytes / Math.max(1, zoomed.bytes)) * width >= 1);
  });
  const rows = shown.reduce((most, { box }) => Math.max(most, box.depth + 1), 1);
  const svg = draw(area, "svg", { viewBox: `0 0 ${width} ${rows * ROW}`, height: rows * ROW, role: "group", "aria-label": "Flame graph: each box is a function below its caller" });
  const x = (bytes) => Math.max(0, Math.min(width, ((bytes - zoomed.x) / Math.max(1, zoomed.bytes)) * width));
  for (const { box, i } of shown) {
    const left = x(box.x), wide = x(box.x + box.bytes) - left;
    const is_found = state.searched && box.label.toLowerCase().includes(state.searched);
    const group = draw(svg, "g", { tabindex: wide > 3 ? 0 : -1, role: "button", class: is_found ? "is-found" : "", "aria-label": `${box.label}, ${SHOW.bytes(box.bytes)}` });
    draw(group, "rect", { class: `fm${box.colour}`, x: left.toFixed(1), y: box.depth * ROW, width: Math.max(0.5, wide).toFixed(1), height: ROW - 1, rx: 2 });
    if (wide > 34) shorten(draw(group, "text", { x: (left + 4).toFixed(1), y: box.depth * ROW + 13 }, box.label), box.label, wide - 8);
    group.addEventListener("pointerenter", () => say(box));
    group.addEventListener("focus", () => say(box));
    group.addEventListener("click", () => { focus(i); say(box); });
    group.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); focus(i); say(box); } });
  }
}

// as much of the label as fits into so many pixels
function shorten(text, label, room) {
  let keep = label.length;
  for (let length = text.getComputedTextLength(); length > room && keep > 2; length = text.getComputedTextLength()) {
    keep = Math.min(keep - 1, Math.floor((keep * room) / length));
    text.textContent = label.slice(0, Math.max(0, keep)) + "…";
  }
  if (keep < 3 && keep < label.length) text.remove();
}

function draw_heap() {
  const drawn = [];
  DATA.profiles.forEach((profile, index) => {
    const chart = document.querySelector(`figure[data-chart="heap-${index}"]`);
    if (chart) {
      delete groups[`heap ${index}`];
      heap_over_time(chart, profile, index);
    }
    const flame = document.querySelector(`figure[data-chart="flame-${index}"]`);
    if (flame) drawn.push(flame_graph(flame, profile));
  });
  return drawn;
}

draw_heap();
let heap_drawn_at = document.documentElement.clientWidth;
addEventListener("resize", () => {
  if (document.documentElement.clientWidth === heap_drawn_at) return;
  heap_drawn_at = document.documentElement.clientWidth;
  draw_heap();
});
