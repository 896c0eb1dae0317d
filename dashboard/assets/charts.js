// Charts, drawn by uPlot.
import { make, clock } from "./page.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const all = new Set();

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { for (const c of all) c.plot.redraw(false, true); });
const resized = new ResizeObserver((entries) => {
  for (const c of all) if (entries.some((e) => e.target === c.element) && c.element.clientWidth) c.plot.setSize({ width: c.element.clientWidth, height: c.height });
});

function swatch(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  svg.setAttribute("aria-hidden", "true");
  box.setAttribute("width", "12");
  box.setAttribute("height", "12");
  box.setAttribute("class", name.slice(2));
  svg.append(box);
  return svg;
}

// Chart is a chart with a legend of its own, which shows the figures under the pointer, or else the last.
export class Chart {
  // series are {label, colour, area, steps}; value makes a text of a figure; scale is that of uPlot.
  constructor(element, series, value, scale, height = 200) {
    this.element = element;
    this.height = height;
    this.value = value;
    this.clock = clock;
    const axis = { stroke: () => colour("--soft"), grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    this.values = series.map(() => make("b", {}, "–"));
    this.when = make("span", {}, "");
    this.none = make("p", { class: "none hint", hidden: true }, "");
    const legend = make("ul", { class: "legend" }, ...series.map((s, i) => make("li", {}, swatch(s.colour), s.label, this.values[i])), make("li", {}, this.when));
    this.plot = new uPlot({
      width: Math.max(200, element.clientWidth), height, legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { y: scale },
      axes: [
        { ...axis, size: 30, space: 76, values: (_, ticks) => ticks.map((t) => this.clock(t * 1000)) },
        { ...axis, size: 62, space: 36, values: (_, ticks) => ticks.map((v) => (v === null ? "" : v ? value(v) : "0")) },
      ],
      series: [{}, ...series.map((s) => ({
        stroke: () => colour(s.colour), fill: s.area ? () => colour(s.colour) + "44" : undefined, width: 1.5, points: { show: false },
        paths: s.steps ? uPlot.paths.stepped({ align: 1 }) : undefined,
      }))],
      hooks: { setCursor: [() => this.tell()] },
    }, [[], ...series.map(() => [])], element);
    element.append(this.none, legend);
    all.add(this);
    resized.observe(element);
  }

  // draw gives the chart its figures, over times in ms. If stacked is true, the first series stands on the second. none is what to say without figures, and label makes a text of a time.
  draw(times, columns, stacked, none, label = clock) {
    this.clock = label;
    this.own = [times, ...columns];
    const first = stacked ? columns[0].map((v, i) => v + columns[1][i]) : columns[0];
    this.plot.setData([times.map((t) => t / 1000), first, ...columns.slice(1)]);
    const empty = !columns.some((c) => c.some((v) => v));
    this.none.hidden = !empty || !none;
    this.none.textContent = none || "";
    this.tell();
  }

  tell() {
    if (!this.own) return;
    const [times, ...columns] = this.own, at = this.plot.cursor.idx;
    const i = at === null || at === undefined ? times.length - 1 : at;
    columns.forEach((c, n) => {
      const v = c[i], text = v === null || v === undefined ? "–" : this.value(v);
      if (this.values[n].textContent !== text) this.values[n].textContent = text;
    });
    this.when.textContent = at === null || at === undefined ? "" : "at " + this.clock(times[i]);
  }

  end() { all.delete(this); resized.unobserve(this.element); this.plot.destroy(); }
}

// spark returns a small picture of figures, for a list.
export function spark(figures, name, label) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const most = Math.max(1, ...figures), n = Math.max(1, figures.length - 1);
  svg.setAttribute("viewBox", "0 0 100 24");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "spark " + (figures.some((v) => v) ? name : "quiet"));
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  line.setAttribute("points", figures.map((v, i) => `${(100 * i / n).toFixed(1)},${(22 - 20 * v / most).toFixed(1)}`).join(" "));
  svg.append(line);
  return svg;
}
