// SPDX-License-Identifier: Apache-2.0
// The charts of this report, drawn from DATA.
const ARMS = DATA.arms.map((arm, index) => ({ ...arm, colour: index % 6 }));
const LOADED = ARMS.filter((arm) => arm.bins);
const state = { counts: "log" };

function range(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) if (value !== null && value > 0) { low = Math.min(low, value); high = Math.max(high, value); }
  return low <= high ? [low, high] : [1, 10];
}

// --- histogram ----------------------------------------------------------------------------------------------------------

// joins bins until a bar is wide enough to be seen
function bars(bins, scale, width) {
  const per_bar = Math.max(1, Math.ceil(3 / (scale.at(scale.from * 10 ** (1 / bins.per_decade)) * width)));
  const found = new Map();
  bins.counts.forEach((count, index) => {
    const slot = Math.floor((bins.first + index) / per_bar);
    found.set(slot, (found.get(slot) || 0) + count);
  });
  const edge = (slot) => 10 ** ((slot * per_bar) / bins.per_decade);
  return [...found].filter(([, count]) => count > 0).map(([slot, count]) => ({ low: edge(slot), high: edge(slot + 1), count }));
}

// names above the modes; those that would touch go a row higher
function name_rows(modes, x, width) {
  const narrow = width < 520;
  const ends = [];
  return modes.map((mode) => {
    const name = mode.name || SHOW.us(mode.center_us);
    const share = narrow ? "" : SHOW.share(mode.share);
    const half = (name.length * 6.6 + (share ? share.length * 6.4 + 7 : 0)) / 2;
    const center = Math.max(half, Math.min(width - half, x(mode.center_us)));
    let row = ends.findIndex((end) => end + 8 < center - half);
    if (row < 0) row = ends.length;
    ends[row] = center + half;
    return { mode, name, share, center, row };
  });
}

function histograms(figure) {
  const box = figure.querySelector(".plots");
  box.replaceChildren();
  for (const group of Object.keys(groups)) if (group.startsWith("histogram")) delete groups[group];
  const edges = LOADED.flatMap((arm) => {
    const edge = (index) => 10 ** ((arm.bins.first + index) / arm.bins.per_decade);
    return [edge(0), edge(arm.bins.counts.length)];
  });
  const [low, high] = range(edges);
  const x = logarithmic(low / 1.08, high * 1.08);
  const width = Math.max(240, box.clientWidth) - 76;
  LOADED.forEach((arm, position) => one_histogram(box, arm, x, width, position === LOADED.length - 1));
}

function one_histogram(box, arm, x, width, last) {
  const own = bars(arm.bins, x, width);
  const total = own.reduce((sum, bar) => sum + bar.count, 0);
  const top = Math.max(1, ...own.map((bar) => bar.count));
  const y = state.counts === "log" ? logarithmic(0.5, top * 1.3) : linear(0, top * 1.05);
  const names = name_rows(arm.modes, (value) => x.at(value) * width, width);
  const rows = Math.max(1, ...names.map((name) => name.row + 1));
  const head = make("h4", {}, make("span", { class: `arm a${arm.colour}` }, arm.name));
  const holder = make("div", {});
  holder.append(head);
  box.append(holder);
  const words = arm.modes.map((m) => `${m.name ? m.name + ": " : ""}${SHOW.share(m.share)} around ${SHOW.us(m.center_us)}`).join(" · ");
  const f = frame(holder, {
    height: 150, top: 12 + rows * 17, x, y, x_unit: "us", y_unit: "count", x_title: last ? `${arm.times || "service time"} (log scale)` : "",
    y_title: "queries", label: `Latency histogram of arm ${arm.name}. ${words}`,
  });
  arm.modes.forEach((mode) => {
    const left = Math.max(0, f.x(mode.low_us)), right = Math.min(f.inner.width, f.x(mode.high_us));
    draw(f.back, "rect", { class: "mode", x: left + 1, width: Math.max(1, right - left - 2), y: 0, height: f.inner.height });
  });
  for (const bar of own) {
    const left = f.x(bar.low), right = f.x(bar.high), up = f.y(bar.count);
    draw(f.area, "rect", {
      class: `f${arm.colour}`, x: left, width: Math.max(1, right - left - 0.6), y: up, height: Math.max(0, f.inner.height - up),
    });
  }
  for (const { mode, name, share, center, row } of names) {
    const at = f.x(mode.center_us), text_y = -7 - row * 17;
    draw(f.area, "line", { class: "mode-line", x1: at, x2: at, y1: text_y + 4, y2: f.inner.height * 0.04 });
    const text = draw(f.area, "text", { x: center, y: text_y, "text-anchor": "middle" });
    draw(text, "tspan", { class: "mode-name" }, name);
    if (share) draw(text, "tspan", { class: "mode-share", dx: 6 }, share);
  }
  holder.append(make("p", { class: "words-below" }, words + (arm.reason ? (words ? " — " : "") + arm.reason : "")));
  cursor(f, `histogram ${arm.name}`, own.map((bar) => Math.sqrt(bar.low * bar.high)), (value) => {
    const bar = own.find((bar) => value >= bar.low && value < bar.high) || own[0];
    return {
      where: `${SHOW.us(bar.low)} to ${SHOW.us(bar.high)}`,
      rows: [{ label: "queries", value: SHOW.count(Math.round(bar.count)) }, { label: "of all", value: SHOW.share(bar.count / total) }],
    };
  });
}

function count_toggle(figure) {
  const controls = figure.querySelector(".controls");
  controls.setAttribute("role", "group");
  controls.setAttribute("aria-label", "Scale of the counts");
  const buttons = ["log", "linear"].map((kind) => {
    const button = make("button", { type: "button", "aria-pressed": String(state.counts === kind) }, kind);
    button.addEventListener("click", () => {
      state.counts = kind;
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(other === button)));
      histograms(figure);
    });
    return button;
  });
  controls.replaceChildren(...buttons);
}

// --- percentiles --------------------------------------------------------------------------------------------------------

const DASHES = ["", "dash1", "dash3", "dash4", "dash2", "dash1"];

function percentiles(figure) {
  const box = figure.querySelector(".plots");
  box.replaceChildren();
  const lines = LOADED.flatMap((arm, index) => {
    const own = [{ label: arm.name, points: arm.curve, colour: arm.colour, kind: DASHES[index % 6] }];
    if (arm.service_curve) own.push({ label: `${arm.name}, service time`, points: arm.service_curve, colour: arm.colour, kind: "thin" });
    return own;
  });
  legend(figure, lines);
  const [low, high] = range(lines.flatMap((line) => line.points.map((point) => point[1])));
  const most = Math.max(10, ...lines.flatMap((line) => line.points.map((point) => point[0])));
  const x = logarithmic(1, most);
  x.ticks = () => [1, 2, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7].filter((one_in) => one_in <= most);
  const f = frame(box, {
    height: 260, x, y: logarithmic(low / 1.3, high * 1.2), x_unit: "one_in", y_unit: "us", x_title: "percentile of queries",
    y_title: "response time", label: "Response time by percentile, one line an arm",
  });
  for (const line of lines) path(f, line.points, `s${line.colour} ${line.kind}`);
  const stops = lines.reduce((longest, line) => (line.points.length > longest.length ? line.points : longest), []).map((p) => p[0]);
  cursor(f, "curve", stops, (value) => ({
    where: `${SHOW.one_in(value)} of the queries took at most`,
    rows: lines.map((line) => {
      const reached = value <= line.points[line.points.length - 1][0];
      const at = nearest(line.points.map((point) => point[0]), value);
      return { ...line, value: reached ? SHOW.us(line.points[at][1]) : "–" };
    }),
  }));
}

// --- over time ----------------------------------------------------------------------------------------------------------

function over_time(figure, unit, columns) {
  const box = figure.querySelector(".plots");
  box.replaceChildren();
  const arms = ARMS.filter((arm) => arm.timeline && arm.timeline.t.length);
  if (!arms.length) return;
  const slots = arms.map((arm) => arm.timeline.slot_s);
  const slot = Math.max(...slots);
  // a program of somebody else's tells other figures of its slots than ours
  const lines = arms.flatMap((arm, index) => columns.map(([key, kind, suffix]) => ({
    label: arm.name + suffix, colour: arm.colour, kind: kind || DASHES[index % 6], arm, key, kind_of: kind,
    points: arm.timeline.t.map((t, i) => [t, arm.timeline[key][i] || null]),
  }))).filter((line) => line.points.some((point) => point[1] !== null));
  const lengths = [...new Set([Math.min(...slots), slot])].map((length) => digits(length * 1e3)).join(" to ");
  legend(figure, lines.map((line) => ({ ...line, kind: line.kind_of || "" })));
  const times = arms.flatMap((arm) => [arm.timeline.t[0], arm.timeline.t[arm.timeline.t.length - 1]]);
  const [low, high] = range(lines.flatMap((line) => line.points.map((point) => point[1])));
  const spread = high / low > 12;
  const first = Math.min(0, ...times);
  const f = frame(box, {
    height: 220, x: linear(first, Math.max(...times)), y: spread ? logarithmic(low / 1.2, high * 1.2) : linear(0, high * 1.06),
    x_unit: "count", y_unit: unit, x_title: `seconds since measuring began; one point each ${lengths} ms`,
    y_title: (unit === "us" ? "response time" : "queries/s") + (spread ? " (log scale)" : ""),
    label: `${figure.querySelector("h3").textContent} over time, one line an arm`,
  });
  if (first < 0) {
    draw(f.back, "rect", { class: "warm", x: 0, width: f.x(0), y: 0, height: f.inner.height });
    if (f.x(0) > 54) draw(f.back, "text", { class: "span-name", x: 5, y: 12 }, "warm-up");
  }
  for (const line of lines) path(f, line.points, `s${line.colour} ${line.kind_of || ""}`);
  const longest = arms.reduce((a, b) => (b.timeline.t.length > a.timeline.t.length ? b : a), arms[0]);
  cursor(f, "time", longest.timeline.t, (value) => ({
    where: SHOW.seconds(value),
    rows: lines.map((line) => {
      const at = nearest(line.arm.timeline.t, value);
      const near = Math.abs(line.arm.timeline.t[at] - value) <= slot * 1.5;
      const found = near ? line.arm.timeline[line.key][at] : null;
      return { label: line.label, colour: line.colour, kind: line.kind_of || "", value: found === null ? "–" : SHOW[unit](found) };
    }),
  }));
}

// --- the host over the whole run ------------------------------------------------------------------------------------------

// the usual time between two points of a line, in seconds
function spacing(times) {
  const between = times.slice(1).map((t, i) => t - times[i]).sort((a, b) => a - b);
  return between.length ? between[Math.floor(between.length / 2)] : 0;
}

function panel(figure, data) {
  const box = figure.querySelector(".plots");
  box.replaceChildren();
  const lines = data.lines.map((line, index) => ({
    label: line.label, colour: index % 6, kind: DASHES[index % 6], t: line.t, v: line.v, points: line.t.map((t, i) => [t, line.v[i]]),
    reach: Math.max(3, 0.75 * spacing(line.t)),
  }));
  legend(figure, lines);
  const high = Math.max(data.unit === "share" ? 0.01 : 1e-9, ...lines.flatMap((line) => line.v).filter((value) => value !== null));
  const counted = data.id === "statements" ? "statements or transactions" : "reads";
  const titles = { bytes: "", per_second: `${counted} a second (log scale)`, cores: "CPUs in use", share: "share of time stalled" };
  // rates of arms differ by powers of ten; what is below one a second lies on the axis
  const y = data.unit === "per_second" ? logarithmic(1, Math.max(10, high * 1.4)) : linear(0, high * 1.06, data.unit);
  const f = frame(box, {
    height: data.unit === "share" || data.unit === "cores" ? 120 : 180, x: linear(0, DATA.elapsed_s), y,
    x_unit: "count", y_unit: data.unit, x_title: "seconds since the run began", y_title: titles[data.unit], label: `${data.title} over the whole run`,
  });
  for (const arm of ARMS) {
    const spans = [["span", arm.started_s, arm.ended_s], ...(arm.measured_s ? [["span-measured", ...arm.measured_s]] : [])];
    for (const [kind, from, to] of spans) {
      draw(f.back, "rect", { class: kind, x: f.x(from), width: Math.max(0, f.x(to) - f.x(from)), y: 0, height: f.inner.height });
    }
    const [from, to] = arm.measured_s || [arm.started_s, arm.ended_s];
    if (f.x(to) - f.x(from) > arm.name.length * 6.2 + 6) {
      draw(f.back, "text", { class: "span-name", x: (f.x(from) + f.x(to)) / 2, y: -5, "text-anchor": "middle" }, arm.name);
    }
  }
  for (const line of lines) path(f, line.points, `s${line.colour} ${line.kind}`);
  const stops = [...new Set(lines.flatMap((line) => line.t))].sort((a, b) => a - b);
  cursor(f, "run", stops, (value) => ({
    where: SHOW.seconds(value),
    rows: lines.map((line) => {
      const at = nearest(line.t, value);
      const near = Math.abs(line.t[at] - value) <= line.reach && line.v[at] !== null;
      return { ...line, value: near ? SHOW[data.unit](line.v[at]) : "–" };
    }),
  }));
}

// --- all of it ----------------------------------------------------------------------------------------------------------

function chart(figure) {
  const kind = figure.dataset.chart;
  if (kind === "histograms") return histograms(figure);
  if (kind === "curve") return percentiles(figure);
  if (kind === "throughput") return over_time(figure, "per_second", [["queries_per_second", "", ""], ["transactions_per_second", "", ", transactions"]]);
  if (kind === "response") return over_time(figure, "us", [["p99_us", "", ", p99"], ["p50_us", "thin", ", p50"], ["p95_us", "", ", p95"], ["mean_us", "thin", ", mean"]]);
  const data = DATA.panels.find((panel) => panel.id === kind);
  if (data) panel(figure, data);
}

function draw_all() {
  for (const group of Object.keys(groups)) delete groups[group];
  document.querySelectorAll("figure[data-chart]").forEach(chart);
}

document.querySelectorAll('figure[data-chart="histograms"]').forEach(count_toggle);
draw_all();

let drawn_at = document.documentElement.clientWidth;
addEventListener("resize", () => {
  if (document.documentElement.clientWidth === drawn_at) return;
  drawn_at = document.documentElement.clientWidth;
  draw_all();
});
addEventListener("beforeprint", draw_all);

document.querySelectorAll("[data-filter]").forEach((input) => {
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of document.getElementById(input.dataset.filter).children) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
});
