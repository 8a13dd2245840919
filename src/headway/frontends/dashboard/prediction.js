// How right predictions are: predicted against actual times of batches, and how many bounds held.

import { colour } from "./colours.js";
import { byId, fill, h } from "./dom.js";
import { count, percent, time } from "./words.js";

const POINTS_MAX = 800;

export function showCoverage(glance) {
  const { service, latency } = glance;
  fill(byId("coverage"), [service, latency], () =>
    [["Batches", service], ["Requests", latency]].flatMap(([name, of]) => [
      h(
        "div",
        {},
        h("dt", {}, name),
        h(
          "dd",
          {},
          h("strong", {}, of.judged ? percent(of.covered / of.judged) : "–"),
          h("small", {}, ` of ${count(of.judged)} bounds held; mean error ${percent(of.error_ratio)}`),
        ),
      ),
    ]));
}

let chart = null;
let shown = "";

/** The plot; both axes are logarithmic, since times of models differ by orders. */
export function showCalibration(store) {
  const root = byId("calibration");
  const width = root.clientWidth;
  const known = store.ended.filter((batch) => batch.bound > 0 && batch.expected > 0 && batch.took > 0 && batch.fate !== 2);
  const points = known.slice(-POINTS_MAX).sort((a, b) => a.expected - b.expected);
  root.setAttribute("aria-label", spoken(points));
  if (!points.length || !width) return;
  const within = points.map((p) => (p.took <= p.bound ? p.took : null));
  const beyond = points.map((p) => (p.took > p.bound ? p.took : null));
  const all = points.flatMap((p) => [p.expected, p.took]);
  const low = 10 ** Math.floor(Math.log10(Math.min(...all)));
  const high = 10 ** Math.ceil(Math.log10(Math.max(...all) * 1.01));
  // The first and the last point are there for the line on which a perfect prediction lies.
  const xs = [low, ...points.map((p) => p.expected), high];
  const data = [xs, [low, ...points.map(() => null), high], [null, ...within, null], [null, ...beyond, null]];
  const what = JSON.stringify([low, high, width, document.documentElement.dataset.theme]);
  if (chart && what === shown) {
    chart.setData(data);
    return;
  }
  chart?.destroy();
  shown = what;
  const dots = (name, paint) => ({
    label: name,
    stroke: paint,
    paths: () => null,
    points: { show: true, size: 4, stroke: paint, fill: paint, width: 0 },
  });
  const axis = (label) => ({
    label,
    labelSize: 18,
    labelFont: "12px system-ui, sans-serif",
    stroke: colour("--muted"),
    grid: { stroke: colour("--grid"), width: 1 },
    ticks: { show: false },
    values: (_, ticks) => ticks.map((value) => (Number.isInteger(Math.log10(value)) ? time(value) : null)),
  });
  const range = () => [low, high];
  chart = new window.uPlot(
    {
      width,
      height: 250,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, distr: 3, range }, y: { distr: 3, range } },
      series: [
        {},
        { label: "as predicted", stroke: colour("--muted"), width: 1, dash: [4, 4], spanGaps: true, points: { show: false } },
        dots("within the bound", colour("--accent")),
        dots("beyond the bound", colour("--bad")),
      ],
      axes: [{ ...axis("predicted"), size: 30 }, { ...axis("actual"), size: 54 }],
    },
    data,
    root,
  );
}

function spoken(points) {
  if (!points.length) return "No batch with a prediction has ended yet";
  const beyond = points.filter((p) => p.took > p.bound).length;
  const errors = points.map((p) => Math.abs(p.expected - p.took) / p.took).sort((a, b) => a - b);
  return `Of the last ${points.length} batches ${beyond} took longer than their bound; the median error is ${percent(errors[errors.length >> 1])}`;
}
