// Devices with their slots, moving: a row a slot, a box a batch; what runs still has its end before it.
//
// Drawn a moment behind the server, so that all that had ended by then is known and nothing jumps.

import { colour, tierClass, tierColour } from "./colours.js";
import { byId, fill, h, table } from "./dom.js";
import { time } from "./words.js";

const ROWS = [[2, 46], [4, 34], [8, 28], [Infinity, 22]]; // so many slots at most, so high each
const ROW_MAX = 130; // where there is room for more
const GAP = 4;
const HEAD = 22;
const LEFT = 92;
const SLOTS_MAX = 96; // rows that are drawn
const FRAME_MS = 30;
const AHEAD = 0.22; // part of the width that is yet to come
const LATE = 1;
const FAILED = 2;
const UNWANTED = 3;
const FATES = ["in time", "late", "failed", "nobody waited any more"];

export class Slots {
  spanMs = 3000;
  isPaused = false;
  #root;
  #store;
  #canvas;
  #tip;
  #frame = 0;
  #hits = [];
  #at = 0;
  #isCalm = matchMedia("(prefers-reduced-motion: reduce)");
  #last = 0;
  #row = 0;

  constructor(root, store) {
    this.#root = root;
    this.#store = store;
    this.#canvas = h("canvas", { attrs: { role: "img", "aria-label": "Timeline of the slots" } });
    this.#tip = h("div", { className: "tip", hidden: true });
    this.#canvas.style.height = "0";
    root.append(this.#canvas, this.#tip);
    this.#canvas.addEventListener("mousemove", (event) => this.#point(event));
    this.#canvas.addEventListener("mouseleave", () => (this.#tip.hidden = true));
    this.#frame = requestAnimationFrame(() => this.#draw());
  }

  stop() {
    cancelAnimationFrame(this.#frame);
  }

  #draw() {
    this.#frame = requestAnimationFrame(() => this.#draw());
    const { glance } = this.#store;
    if (!glance || document.hidden) return;
    const now = performance.now();
    if (now - this.#last < (this.#isCalm.matches ? 1000 : FRAME_MS)) return;
    this.#last = now;
    if (!this.isPaused) this.#at = this.#store.shownMs();
    this.#paint(glance, this.#at);
  }

  #paint(glance, at) {
    const slots = glance.devices.flatMap((device, index) =>
      device.lanes.map((lane, slot) => ({ device: index, name: device.name, lane, slot }))).slice(0, SLOTS_MAX);
    this.#row = this.#rowFor(slots.length);
    const width = this.#root.clientWidth;
    const height = HEAD + slots.length * (this.#row + GAP) + GAP;
    const context = this.#size(width, height);
    const ink = { text: colour("--text"), muted: colour("--muted"), grid: colour("--grid"), row: colour("--row"), bad: colour("--bad"), label: colour("--on-tier") };
    const perMs = ((width - LEFT) * (1 - AHEAD)) / this.spanMs;
    const x = (ms) => LEFT + (width - LEFT) * (1 - AHEAD) + (ms - at) * perMs;
    const tops = new Map(slots.map((each, index) => [`${each.device}/${each.slot}`, HEAD + index * (this.#row + GAP)]));
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.#axis(context, ink, x, at, width, height);
    for (const each of slots) {
      const top = tops.get(`${each.device}/${each.slot}`);
      context.fillStyle = ink.row;
      context.fillRect(LEFT, top, width - LEFT, this.#row);
      context.fillStyle = ink.muted;
      context.fillText(each.slot === 0 ? shortened(context, each.name, 58) : "", 0, top + this.#row / 2);
      context.textAlign = "right";
      context.fillText(String(each.slot), LEFT - 8, top + this.#row / 2);
      context.textAlign = "left";
    }
    this.#hits = [];
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, height);
    context.clip();
    for (const batch of this.#batches(glance, at)) {
      const top = tops.get(`${batch.device}/${batch.slot}`);
      if (top !== undefined) this.#box(context, ink, batch, x, at, top);
    }
    context.strokeStyle = ink.text;
    context.globalAlpha = 0.55;
    context.lineWidth = 1;
    line(context, Math.round(x(at)) + 0.5, HEAD - 4, height);
    context.restore();
  }

  /** How high a row is: what so many need, or more where the card beside this one is higher. */
  #rowFor(count) {
    const least = ROWS.find(([most]) => count <= most)[1];
    this.#root.style.minHeight = `${HEAD + count * (least + GAP) + GAP}px`;
    const room = Math.floor((this.#root.clientHeight - HEAD - GAP) / Math.max(1, count)) - GAP;
    return Math.max(least, Math.min(room, ROW_MAX));
  }

  /** Those that are to be seen, ended or not. */
  *#batches(glance, at) {
    const from = at - this.spanMs;
    for (const batch of this.#store.ended) {
      if (batch.end >= from && batch.start <= at) yield batch;
    }
    for (const [device, each] of glance.devices.entries()) {
      for (const run of each.running) {
        if (run.started_ms > at) continue;
        yield {
          device, slot: run.slot, model: run.model, tier: run.tier, rows: run.rows,
          start: run.started_ms, end: Infinity, took: null, expected: run.expected_ms, bound: run.bound_ms, fate: null,
        };
      }
    }
  }

  #box(context, ink, batch, x, at, top) {
    const isRunning = batch.end > at;
    const left = x(batch.start);
    const right = Math.max(left + 1, x(Math.min(batch.end, at)));
    const paint = tierColour(batch.tier);
    const middle = top + this.#row / 2;
    if (isRunning && batch.expected) {
      context.globalAlpha = 0.28;
      context.fillStyle = paint;
      context.fillRect(right, top + 3, Math.max(0, x(batch.start + batch.expected) - right), this.#row - 6);
      context.globalAlpha = 1;
    }
    context.fillStyle = paint;
    context.globalAlpha = batch.fate === UNWANTED && !isRunning ? 0.35 : 0.92;
    context.fillRect(left, top + 1, right - left, this.#row - 2);
    context.globalAlpha = 1;
    if (!isRunning && (batch.fate === LATE || batch.fate === FAILED)) {
      context.fillStyle = ink.bad;
      context.fillRect(left, top + this.#row - 5, Math.max(2, right - left), 4);
    }
    const isWide = isRunning || right - left > 14;
    if (batch.bound && isWide) {
      const expected = x(batch.start + batch.expected);
      const bound = x(batch.start + batch.bound);
      context.strokeStyle = ink.text;
      context.lineWidth = 1.5;
      context.globalAlpha = isRunning ? 0.9 : 0.45;
      line(context, expected, top + 3, top + this.#row - 3);
      context.lineWidth = 1;
      context.beginPath();
      context.moveTo(expected, middle);
      context.lineTo(bound, middle);
      context.moveTo(bound, middle - 3);
      context.lineTo(bound, middle + 3);
      context.stroke();
      context.globalAlpha = 1;
    }
    const room = right - left - 10;
    if (room > 34) {
      context.fillStyle = batch.fate === UNWANTED && !isRunning ? ink.text : ink.label;
      context.fillText(shortened(context, batch.model, room), left + 5, middle + 0.5);
    }
    this.#hits.push({ left, right: Math.max(right, left + 4), top, batch, isRunning });
  }

  #axis(context, ink, x, at, width, height) {
    const step = this.spanMs <= 1000 ? 200 : this.spanMs <= 3000 ? 500 : this.spanMs <= 10_000 ? 2000 : 5000;
    context.strokeStyle = ink.grid;
    context.fillStyle = ink.muted;
    context.textAlign = "center";
    context.lineWidth = 1;
    const first = Math.ceil((at - this.spanMs) / step) * step;
    for (let ms = first; x(ms) < width; ms += step) {
      const left = Math.round(x(ms)) + 0.5;
      if (left > LEFT) line(context, left, HEAD - 4, height);
    }
    context.fillStyle = ink.text;
    context.fillText("now", x(at), HEAD / 2 - 1);
    context.fillStyle = ink.muted;
    context.fillText(`${time(this.spanMs / 2)} ago`, x(at - this.spanMs / 2), HEAD / 2 - 1);
    if (width - x(at) > 130) context.fillText("predicted", (x(at) + width) / 2 + 8, HEAD / 2 - 1);
    context.textAlign = "left";
  }

  #size(width, height) {
    const canvas = this.#canvas;
    const scale = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    return context;
  }

  #point(event) {
    const box = this.#canvas.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    const hit = this.#hits.find((each) =>
      left >= each.left && left <= each.right && top >= each.top && top <= each.top + this.#row);
    this.#tip.hidden = !hit;
    if (!hit) return;
    const { batch, isRunning } = hit;
    const took = isRunning ? `running for ${time(this.#at - batch.start)}` : `took ${time(batch.took)}, ${FATES[batch.fate]}`;
    const predicted = batch.bound ? `predicted ${time(batch.expected)}, at most ${time(batch.bound)}` : "nothing was predicted";
    this.#tip.replaceChildren(
      h("strong", {}, batch.model), h("span", {}, `${batch.tier}, ${batch.rows} ${batch.rows === 1 ? "row" : "rows"}`),
      h("span", {}, took), h("span", {}, predicted),
    );
    this.#tip.style.left = `${Math.min(left + 12, Math.max(0, box.width - 210))}px`;
    this.#tip.style.top = `${top + 14}px`;
  }
}

/** The legend, and what runs as a table, for those who do not see the picture. */
export function showRunning(glance) {
  const names = glance.tiers.map((tier) => tier.name);
  const count = glance.devices.reduce((sum, device) => sum + device.lanes.length, 0);
  fill(byId("slots-legend"), [names, count], () => [
    ...names.map((name) =>
      h("li", { className: tierClass(name) }, h("span", { className: "swatch", attrs: { "aria-hidden": "true" } }), name)),
    h("li", {}, h("span", { className: "swatch late", attrs: { "aria-hidden": "true" } }), "late"),
    h("li", {}, h("span", { className: "swatch faint", attrs: { "aria-hidden": "true" } }), "faint: nobody waited for it any more"),
    count > SLOTS_MAX ? h("li", {}, `the first ${SLOTS_MAX} of ${count} slots`) : "",
  ]);
  const details = byId("running").closest("details");
  if (!details.open) return;
  const rows = glance.devices.flatMap((device) =>
    device.lanes.map((_, slot) => ({ device: device.name, slot, run: device.running.find((each) => each.slot === slot) })));
  table(
    byId("running"),
    [
      { title: "Slot", cell: (r) => `${r.device} ${r.slot}` },
      { title: "Model", cell: (r) => r.run?.model ?? "idle" },
      { title: "Tier", cell: (r) => r.run?.tier ?? "" },
      { title: "Rows", number: true, cell: (r) => String(r.run?.rows ?? "") },
      { title: "Runs for", number: true, cell: (r) => (r.run ? time(Math.max(0, glance.now_ms - r.run.started_ms)) : "") },
      { title: "Expected", number: true, cell: (r) => (r.run?.bound_ms ? time(r.run.expected_ms) : "") },
      { title: "At most", number: true, cell: (r) => (r.run?.bound_ms ? time(r.run.bound_ms) : "") },
    ],
    rows,
    "No slots",
  );
}

function line(context, x, top, bottom) {
  context.beginPath();
  context.moveTo(x, top);
  context.lineTo(x, bottom);
  context.stroke();
}

function shortened(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let end = text.length;
  while (end > 1 && context.measureText(`${text.slice(0, end)}…`).width > room) end -= 1;
  return `${text.slice(0, end)}…`;
}
