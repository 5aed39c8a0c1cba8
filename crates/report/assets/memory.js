// SPDX-License-Identifier: Apache-2.0
// The memory ledger as layers on top of each other, drawn from DATA.memory.

function layers(figure, data) {
  const box = figure.querySelector(".plots");
  box.replaceChildren();
  const count = data.t.length;
  const tops = [];
  const sums = new Array(count).fill(0);
  for (const layer of data.layers) {
    for (let i = 0; i < count; i++) sums[i] += layer.v[i] || 0;
    tops.push([...sums]);
  }
  const known = (i) => data.layers[0].v[i] !== null;
  legend(figure, [...data.layers].reverse().map((layer) => ({ label: layer.label, colour: `m${layer.colour}`, kind: "bar" })));
  const f = frame(box, {
    height: 260, x: linear(0, DATA.elapsed_s), y: linear(0, Math.max(1, ...sums) * 1.06, "bytes"), x_unit: "count", y_unit: "bytes",
    x_title: "seconds since the run began", y_title: "", label: `Memory of the server over the run, in layers: ${data.layers.map((layer) => layer.label).join(", ")}`,
  });
  for (const arm of ARMS) {
    const from = f.x(arm.started_s), to = f.x(arm.ended_s);
    draw(f.back, "rect", { class: "span", x: from, width: Math.max(0, to - from), y: 0, height: f.inner.height });
    if (to - from > arm.name.length * 6.2 + 6) {
      draw(f.back, "text", { class: "span-name", x: (from + to) / 2, y: -5, "text-anchor": "middle" }, arm.name);
    }
  }
  stripes(f.svg);
  data.layers.forEach((layer, index) => {
    const upper = (i) => tops[index][i], lower = (i) => (index ? tops[index - 1][i] : 0);
    let d = "";
    for (let from = 0; from < count; from++) {
      if (!known(from)) continue;
      let to = from;
      while (to + 1 < count && known(to + 1)) to++;
      d += area_between(f, data.t, from, to, lower, upper);
      from = to;
    }
    draw(f.area, "path", { class: `layer fm${layer.colour}`, d });
    if (layer.colour === 7) draw(f.area, "path", { fill: "url(#stripes)", d });
  });
  const stops = [...new Set(data.t)];
  cursor(f, "run", stops, (value) => {
    let at = nearest(data.t, value);
    if (!known(at) && at > 0) at--;
    const rows = data.layers.map((layer) => ({
      label: layer.label, colour: `m${layer.colour}`, kind: "bar", value: layer.v[at] === null ? "–" : SHOW.bytes(layer.v[at]),
    }));
    return { where: SHOW.seconds(value), rows: [{ label: "total", value: SHOW.bytes(sums[at]) }, ...rows.reverse()] };
  });
}

function draw_memory() {
  const figure = document.querySelector('figure[data-chart="memory-ledger"]');
  if (figure && DATA.memory) layers(figure, DATA.memory);
}

draw_memory();
let memory_drawn_at = document.documentElement.clientWidth;
addEventListener("resize", () => {
  if (document.documentElement.clientWidth === memory_drawn_at) return;
  memory_drawn_at = document.documentElement.clientWidth;
  draw_memory();
});
addEventListener("beforeprint", draw_memory);
