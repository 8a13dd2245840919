// Queues, tenants, and what got no answer: tables and lists that are put anew when they have changed.

import { tierClass } from "./colours.js";
import { byId, fill, h, meter, table } from "./dom.js";
import { count, percent, ratioOf, reason, time } from "./words.js";

const named = (tier) =>
  h("span", { className: `tier ${tierClass(tier)}` }, h("span", { className: "swatch", attrs: { "aria-hidden": "true" } }), tier);

/** Two lines in one cell, so that a table fits where there is little room. */
const both = (first, second) => h("span", {}, first, " ", h("small", {}, second));

export function showQueues(glance) {
  const order = new Map(glance.tiers.map((tier) => [tier.name, tier.priority]));
  const rows = [...glance.queues].sort((a, b) => (order.get(a.tier) ?? 0) - (order.get(b.tier) ?? 0) || a.model.localeCompare(b.model));
  const deepest = Math.max(1, ...rows.map((queue) => queue.depth));
  table(
    byId("queues"),
    [
      { title: "Model", cell: (q) => both(q.model, named(q.tier)) },
      { title: "Waiting", number: true, cell: (q) => h("span", { className: "with-meter" }, meter(q.depth / deepest, tierClass(q.tier)), count(q.depth)) },
      { title: "Oldest", number: true, cell: (q) => (q.depth ? time(q.oldest_ms) : "–") },
      { title: "Wait", number: true, cell: (q) => time(q.wait_ms) },
    ],
    rows,
    "Nothing has arrived yet",
  );
}

/** The part of the device time that each who asked is due by the weights of shares; 1 is that of who has none. */
function dueOf({ tenants, tenants_left_out: leftOut }) {
  const asked = tenants.filter((t) => t.kept.ended || t.device_ms);
  if (leftOut || !tenants.some((t) => t.weight)) return () => null;
  const all = asked.reduce((sum, t) => sum + (t.weight ?? 1), 0);
  return (t) => (asked.includes(t) ? (t.weight ?? 1) / all : null);
}

export function showTenants(glance) {
  const due = dueOf(glance);
  table(
    byId("tenants"),
    [
      { title: "Tenant", cell: (t) => h("span", { className: "cut", title: t.name }, t.name) },
      { title: "Share", number: true, cell: (t) => h("span", { className: "with-meter" }, meter(t.share_ratio), percent(t.share_ratio)) },
      { title: "Due", number: true, cell: (t) => percent(due(t)) },
      { title: "In time", number: true, cell: (t) => percent(ratioOf(t.kept)) },
      { title: "Limited", number: true, cell: (t) => count(t.refused) },
    ],
    glance.tenants,
    "Nobody has sent anything in the last minute",
  );
}

export function showRefusals(store) {
  const { glance } = store;
  const most = Math.max(1, ...glance.reasons.map((each) => each.count));
  fill(byId("reasons"), glance.reasons, () =>
    glance.reasons.length
      ? glance.reasons.map((each) =>
          h("li", {}, h("span", {}, reason(each.outcome, each.reason)), meter(each.count / most, "bad"), h("strong", {}, count(each.count))))
      : [h("li", { className: "empty" }, "Every request of the last minute got its answer")]);
  const rows = store.refusals.slice(-20).reverse();
  const now = glance.now_ms;
  table(
    byId("refusals"),
    [
      { title: "Request", cell: (r) => both(h("span", { title: `number ${r.request}` }, r.model), named(r.tier)) },
      { title: "Why", cell: (r) => both(reason(r.outcome, r.reason), `after ${time(r.after_ms)} of ${time(r.budget_ms)}`) },
      { title: "Ago", number: true, cell: (r) => time(Math.round(Math.max(0, now - r.at_ms) / 1000) * 1000) },
    ],
    rows,
    "None yet",
  );
}
