"use strict";

// Draws the curves as SVG from the figures in the page, and lets a person read, hide and zoom them.

const SVG = "http://www.w3.org/2000/svg";
// Lines that lie on each other are seen through the gaps.
const DASHES = ["", "9 4", "2 2", "11 3 3 3", "15 6", "5 5", "20 4", "4 2 4 6"];
const COLOURS = 7;
const MARGIN = { top: 10, right: 14, bottom: 40, left: 52 };
const contests = JSON.parse(document.getElementById("figures").textContent);

const colour = (turn) => `var(--line-${turn % COLOURS})`;
const dash = (turn) => DASHES[turn % DASHES.length];

function draw(parent, tag, attributes = {}, text = null) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

function make(parent, tag, attributes = {}, text = null) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== null) node.textContent = text;
  parent.append(node);
  return node;
}

// Numbers as people write them.

const plain = (value, digits) => String(Number(value.toPrecision(digits)));

function scaled(value, steps, digits) {
  const [size, unit] = steps.find(([size]) => Math.abs(value) >= size) ?? steps[steps.length - 1];
  return `${plain(value / size, digits)} ${unit}`;
}

const BYTES = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const SECONDS = [[3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"]];

function format(value, unit, exact) {
  if (unit === "percent") return exact ? `${(100 * value).toFixed(1)}%` : `${plain(100 * value, 4)}%`;
  if (value === 0) return "0";
  if (unit === "bytes") return scaled(value, BYTES, exact ? 4 : 3);
  if (unit === "seconds") return scaled(value, SECONDS, exact ? 4 : 3);
  return plain(value, unit === "round" ? 6 : 4);
}

function ticks(low, high, wanted, whole) {
  const rough = (high - low) / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = power * ([1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  if (whole) step = Math.max(1, Math.round(step));
  const found = [];
  for (let count = Math.ceil(low / step - 1e-9); count * step <= high + step * 1e-9; count += 1) found.push(count * step);
  return found;
}

function nearest(values, wanted) {
  let low = 0;
  let high = values.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (values[middle] < wanted) low = middle;
    else high = middle;
  }
  return Math.abs(values[low] - wanted) <= Math.abs(values[high] - wanted) ? low : high;
}

class Chart {
  constructor(figure, chart, contest) {
    Object.assign(this, { figure, chart, contest, cursor: null, choice: null });
    const caption = figure.querySelector("figcaption");
    const button = (text, label, act) =>
      make(caption, "button", { type: "button", "aria-label": `${label}: ${chart.title}` }, text).addEventListener("click", act);
    button("+", "Zoom in", () => this.zoom(0.5));
    button("−", "Zoom out", () => this.zoom(2));
    button("Reset", "Show all", () => this.reset());
    this.svg = draw(figure, "svg", { class: "plot", tabindex: "0", role: "img" });
    this.tip = make(figure, "div", { class: "readout", hidden: "" });
    this.spoken = make(figure, "div", { class: "spoken", "aria-live": "polite" });
    this.whole = [0, Math.max(...chart.lines.map((line) => line.x[line.x.length - 1])) || 1];
    this.view = [...this.whole];
    this.listen();
    new ResizeObserver(() => this.render()).observe(figure);
  }

  get lines() {
    return this.chart.lines.filter((line) => this.contest.shown[line.group]);
  }

  listen() {
    const at = (event) => event.clientX - this.svg.getBoundingClientRect().left;
    this.svg.addEventListener("pointermove", (event) => {
      if (this.choice) this.choice[1] = at(event);
      this.point(this.value(at(event)));
    });
    this.svg.addEventListener("pointerleave", () => { if (!this.choice) this.point(null); });
    this.svg.addEventListener("pointerdown", (event) => {
      this.choice = [at(event), at(event)];
      this.svg.setPointerCapture(event.pointerId);
      this.point(this.value(at(event)));
    });
    this.svg.addEventListener("pointerup", () => {
      const [from, to] = this.choice ? this.choice.map((place) => this.value(place)).sort((a, b) => a - b) : [0, 0];
      const wide = this.choice && Math.abs(this.choice[1] - this.choice[0]) > 8;
      this.choice = null;
      if (wide) this.show(from, to);
      else this.render();
    });
    this.svg.addEventListener("pointercancel", () => { this.choice = null; this.point(null); });
    this.svg.addEventListener("dblclick", () => this.reset());
    this.svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== this.svg) return; // the page scrolls
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.value(at(event)));
    }, { passive: false });
    this.svg.addEventListener("keydown", (event) => this.press(event));
    this.svg.addEventListener("blur", () => this.point(null));
  }

  press(event) {
    const acts = {
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5),
      "-": () => this.zoom(2), 0: () => this.reset(), Escape: () => { this.point(null); this.reset(); },
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    acts[event.key]();
  }

  step(direction) {
    const [low, high] = this.view;
    const longest = this.lines.reduce((best, line) => (line.x.length > (best?.x.length ?? 0) ? line : best), null);
    if (!longest) return;
    const values = longest.x.filter((x) => x >= low && x <= high);
    if (!values.length) return;
    const place = this.cursor === null ? (direction > 0 ? -1 : values.length) : nearest(values, this.cursor);
    this.point(values[Math.min(Math.max(place + direction, 0), values.length - 1)]);
    this.spoken.textContent = this.tip.innerText.replace(/\n+/g, ", ");
  }

  zoom(factor, centre = this.cursor ?? (this.view[0] + this.view[1]) / 2) {
    const [low, high] = this.view;
    this.show(centre - (centre - low) * factor, centre + (high - centre) * factor);
  }

  show(low, high) {
    const least = (this.whole[1] - this.whole[0]) / 1000;
    this.view = [Math.max(low, this.whole[0]), Math.min(Math.max(high, low + least), this.whole[1])];
    this.render();
  }

  reset() {
    this.show(...this.whole);
  }

  point(value) {
    this.cursor = value === null ? null : Math.min(Math.max(value, this.view[0]), this.view[1]);
    this.render();
  }

  value(pixel) {
    const share = (pixel - MARGIN.left) / (this.width - MARGIN.left - MARGIN.right);
    return this.view[0] + Math.min(Math.max(share, 0), 1) * (this.view[1] - this.view[0]);
  }

  // The vertical range: what the visible lines need in this view; from nothing, where all is in view.
  range() {
    const [low, high] = this.view;
    const all = low === this.whole[0] && high === this.whole[1];
    let bottom = Infinity;
    let top = -Infinity;
    for (const line of this.lines) {
      line.x.forEach((x, place) => {
        if (x < low || x > high) return;
        bottom = Math.min(bottom, line.low[place]);
        top = Math.max(top, line.high[place]);
      });
    }
    if (!Number.isFinite(bottom)) return [0, 1];
    if (all) bottom = Math.min(bottom, 0);
    const spare = (top - bottom || Math.abs(top) || 1) * 0.06;
    if (!all) bottom -= spare;
    top += spare;
    return this.chart.y_unit === "percent" ? [bottom, Math.min(top, 1.02)] : [bottom, top];
  }

  render() {
    const width = Math.round(this.figure.clientWidth) || 640;
    const height = Math.round(Math.min(Math.max(width * 0.6, 230), 340));
    this.width = width;
    const { svg, chart } = this;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const names = this.lines.map((line) => this.contest.groups[line.group]);
    svg.setAttribute("aria-label",
      `${chart.title} over ${chart.across}, curves of ${names.join(", ") || "nothing"}. Arrow keys read values, plus and minus zoom, 0 shows all.`);
    const [left, right] = this.view;
    const [bottom, top] = this.range();
    const right_edge = width - MARGIN.right;
    const floor = height - MARGIN.bottom;
    const x = (value) => MARGIN.left + ((value - left) / (right - left)) * (right_edge - MARGIN.left);
    const y = (value) => floor - ((value - bottom) / (top - bottom)) * (floor - MARGIN.top);

    for (const tick of ticks(bottom, top, 5, false)) {
      draw(svg, "line", { class: "grid", x1: MARGIN.left, x2: right_edge, y1: y(tick), y2: y(tick) });
      draw(svg, "text", { x: MARGIN.left - 8, y: y(tick) + 4, "text-anchor": "end" }, format(tick, chart.y_unit));
    }
    for (const tick of ticks(left, right, Math.max(3, width / 95), chart.x_unit === "round")) {
      draw(svg, "text", { class: "x-tick", x: x(tick), y: floor + 18, "text-anchor": "middle" }, format(tick, chart.x_unit));
      draw(svg, "line", { class: "axis", x1: x(tick), x2: x(tick), y1: floor, y2: floor + 4 });
    }
    draw(svg, "line", { class: "axis", x1: MARGIN.left, x2: right_edge, y1: floor, y2: floor });
    draw(svg, "text", { x: (MARGIN.left + right_edge) / 2, y: height - 5, "text-anchor": "middle" }, chart.across);

    const clip = `clip-${this.contest.place}-${chart.name}`;
    draw(draw(draw(svg, "defs"), "clipPath", { id: clip }), "rect",
      { x: MARGIN.left, y: MARGIN.top - 3, width: right_edge - MARGIN.left, height: floor - MARGIN.top + 4 });
    const inside = draw(svg, "g", { "clip-path": `url(#${clip})` });
    for (const line of this.lines) {
      const forth = line.x.map((value, place) => `${x(value).toFixed(1)},${y(line.high[place]).toFixed(1)}`);
      const back = line.x.map((value, place) => `${x(value).toFixed(1)},${y(line.low[place]).toFixed(1)}`).reverse();
      draw(inside, "polygon", { class: "band", points: [...forth, ...back].join(" "), style: `fill: ${colour(line.turn)}` });
    }
    for (const target of chart.targets) {
      draw(inside, "line", { class: "target", x1: MARGIN.left, x2: right_edge, y1: y(target), y2: y(target) });
    }
    for (const line of this.lines) {
      const points = line.x.map((value, place) => `${x(value).toFixed(1)},${y(line.mean[place]).toFixed(1)}`);
      const style = `stroke: ${colour(line.turn)}; stroke-dasharray: ${dash(line.turn) || "none"}`;
      draw(inside, "polyline", { class: "line", points: points.join(" "), style });
      if (points.length === 1) draw(inside, "circle", { cx: x(line.x[0]), cy: y(line.mean[0]), r: 4, style: `fill: ${colour(line.turn)}` });
    }
    for (const target of chart.targets.filter((value) => value > bottom && value < top)) {
      draw(svg, "text", { class: "name", x: right_edge - 4, y: y(target) + 15, "text-anchor": "end" }, `target ${format(target, "percent")}`);
    }
    if (this.choice) {
      const [from, to] = [...this.choice].sort((a, b) => a - b);
      draw(inside, "rect", { class: "choice", x: from, y: MARGIN.top, width: to - from, height: floor - MARGIN.top });
    }
    this.read(x, y, floor);
  }

  // The values under the cursor: a line in the plot, a point on each curve, a list beside it.
  read(x, y, floor) {
    this.tip.hidden = this.cursor === null || !this.lines.length;
    if (this.tip.hidden) return;
    const found = this.lines
      .map((line) => ({ line, place: nearest(line.x, this.cursor) }))
      .filter(({ line }) => this.cursor <= line.x[line.x.length - 1] + (this.view[1] - this.view[0]) / 50)
      .sort((a, b) => b.line.mean[b.place] - a.line.mean[a.place]);
    if (!found.length) { this.tip.hidden = true; return; }
    const closest = found.map(({ line, place }) => line.x[place])
      .reduce((best, value) => (Math.abs(value - this.cursor) < Math.abs(best - this.cursor) ? value : best));
    draw(this.svg, "line", { class: "cursor", x1: x(closest), x2: x(closest), y1: MARGIN.top, y2: floor });
    this.tip.replaceChildren();
    make(this.tip, "b", {}, this.chart.x_unit === "round" ? `Round ${closest}` : format(closest, this.chart.x_unit, true));
    for (const { line, place } of found.slice(0, 14)) {
      const row = make(this.tip, "div");
      make(row, "i", { style: `background: ${colour(line.turn)}` });
      make(row, "span", {}, this.contest.groups[line.group]);
      make(row, "span", {}, format(line.mean[place], this.chart.y_unit, true));
      draw(this.svg, "circle", { cx: x(line.x[place]), cy: y(line.mean[place]), r: 3.5, style: `fill: ${colour(line.turn)}` });
    }
    const to_right = x(closest) < this.width / 2;
    const space = this.figure.querySelector("figcaption").offsetHeight;
    this.tip.style.top = `${space + MARGIN.top}px`;
    this.tip.style.left = to_right ? `${x(closest) + 12}px` : "auto";
    this.tip.style.right = to_right ? "auto" : `${this.width - x(closest) + 12}px`;
  }
}

contests.forEach((contest, place) => {
  contest.place = place;
  contest.shown = contest.groups.map((_, group) => contest.first.includes(group));
  const rest = contest.groups.map((_, group) => group).filter((group) => !contest.shown[group]);
  const turns = new Map([...contest.first, ...rest].map((group, turn) => [group, turn]));
  contest.charts.forEach((chart) => chart.lines.forEach((line) => { line.turn = turns.get(line.group); }));
  const section = document.getElementById(`contest-${place}`);
  const charts = contest.charts.map((chart) => new Chart(section.querySelector(`[data-chart="${chart.name}"]`), chart, contest));
  const legend = section.querySelector(".legend");
  const redraw = () => {
    legend.querySelectorAll("[data-group]").forEach((button) => button.setAttribute("aria-pressed", contest.shown[button.dataset.group]));
    charts.forEach((chart) => chart.render());
  };
  contest.groups.forEach((name, group) => {
    const button = make(legend, "button", { type: "button", "data-group": group, "aria-pressed": contest.shown[group] });
    const swatch = draw(button, "svg", { width: 36, height: 8, "aria-hidden": "true" });
    const style = `stroke: ${colour(turns.get(group))}; stroke-width: 3; stroke-dasharray: ${dash(turns.get(group)) || "none"}`;
    draw(swatch, "line", { x1: 0, x2: 36, y1: 4, y2: 4, style });
    make(button, "span", {}, name);
    button.addEventListener("click", () => { contest.shown[group] = !contest.shown[group]; redraw(); });
  });
});
