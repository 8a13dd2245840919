// Attainment of each tier: now, over a minute, since the start, beside its target; and its course.

import { knowTiers, tierClass, tierColour, colour } from "./colours.js";
import { byId, fill, h } from "./dom.js";
import { count, percent, ratioOf, time } from "./words.js";

const ENOUGH = 20; // of fewer requests one says little

/** How a ratio stands to its target, as a word and a sign that need no colour. */
export function verdict(kept, target) {
  const ratio = ratioOf(kept);
  if (ratio === null) return { name: "idle", sign: "○", words: "no requests" };
  if (ratio >= target) return { name: "good", sign: "●", words: "on target" };
  if (kept.ended < ENOUGH || ratio >= 1 - 2 * (1 - target)) return { name: "warn", sign: "◐", words: "below target" };
  return { name: "bad", sign: "▲", words: "far below target" };
}

export function showTiers(glance) {
  knowTiers(glance.tiers);
  const tiers = [...glance.tiers].sort((a, b) => a.priority - b.priority);
  fill(byId("tiers"), tiers, () => tiers.map(tile));
}

function tile(tier) {
  const state = verdict(tier.minute, tier.target_ratio);
  const line = (name, kept) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, percent(ratioOf(kept)), h("small", {}, ` of ${count(kept.ended)}`)));
  return h(
    "article",
    { className: `tile ${tierClass(tier.name)}`, data: { state: state.name, tier: tier.name } },
    h("h3", {}, h("span", { className: "swatch", attrs: { "aria-hidden": "true" } }), tier.name),
    h("p", { className: "hint" }, `priority ${tier.priority}, within ${time(tier.budget_ms)}`),
    h("p", { className: "big" }, h("span", { className: "value" }, percent(ratioOf(tier.minute)))),
    h(
      "p",
      { className: "verdict" },
      h("span", { attrs: { "aria-hidden": "true" } }, `${state.sign} `),
      `${state.words} ${Number((100 * tier.target_ratio).toFixed(3))} %`,
    ),
    h("dl", {}, line("now", tier.now), line("1 min", tier.minute), line("since start", tier.start)),
  );
}

let chart = null;
let shown = "";

/** The course of all tiers; made anew when tiers or theme change. */
export function showHistory(store) {
  const root = byId("history");
  const names = [...store.history.tiers.keys()];
  const width = root.clientWidth;
  const what = JSON.stringify([names, document.documentElement.dataset.theme]);
  const data = [store.history.at, ...store.history.tiers.values()];
  if (!names.length || !width) return;
  if (chart && what === shown) {
    if (chart.width !== width) chart.setSize({ width, height: chart.height });
    chart.setData(data);
    return;
  }
  chart?.destroy();
  shown = what;
  const axis = { stroke: colour("--muted"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { show: false } };
  const ago = (u, ticks) => ticks.map((at) => {
    const left = Math.round(u.data[0].at(-1) - at);
    if (left === 0) return "now";
    return left < 60 || left % 60 ? `${left} s ago` : `${left / 60} min ago`;
  });
  chart = new window.uPlot(
    {
      width,
      height: 168,
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false }, y: { range: [0, 1.02] } },
      series: [
        {},
        ...names.map((name) => ({ label: name, stroke: tierColour(name), width: 2, points: { show: false }, spanGaps: false })),
      ],
      axes: [
        { ...axis, values: ago, size: 28, space: 70 },
        { ...axis, values: (_, ticks) => ticks.map((v) => `${Math.round(v * 100)} %`), splits: () => [0, 0.25, 0.5, 0.75, 1], size: 48 },
      ],
    },
    data,
    root,
  );
}
