// "What if this request came now?": asks the scheduler, and says its answer in words.

import { byId, fill, h } from "./dom.js";
import { withKey } from "./stream.js";
import { reason, time } from "./words.js";

const PARTS = [
  ["queue", "waiting"],
  ["overhead", "on the way to the worker and back"],
  ["base", "the model itself"],
  ["transfer", "moving data"],
  ["interference", "slowed by neighbours"],
];

export function setUpWhatIf(keyOf) {
  byId("whatif").addEventListener("submit", (event) => {
    event.preventDefault();
    ask(keyOf());
  });
}

/** Models that may be asked for, and tiers; what is chosen stays chosen. */
export function offerChoices(glance) {
  const models = glance.models.filter((model) => model.state === "READY").map((model) => model.name).sort();
  offer(byId("whatif-model"), [...new Set(models)], []);
  offer(byId("whatif-tier"), glance.tiers.map((tier) => tier.name), [["", "the model's"]]);
}

function offer(select, names, first) {
  const before = select.value;
  fill(select, names, () => [...first, ...names.map((name) => [name, name])].map(([value, text]) => h("option", { value }, text)));
  if (names.includes(before)) select.value = before;
}

async function ask(key) {
  const answer = byId("whatif-answer");
  const model = byId("whatif-model").value;
  if (!model) return say(answer, "bad", ["No model is ready."]);
  const shownKey = byId("whatif-tenant").value || key;
  try {
    const path = `/v2/models/${encodeURIComponent(model)}`;
    const described = await told(path, { headers: withKey(shownKey) });
    const isOpen = described.inputs.some(({ shape }) => shape.slice(1).some((axis) => axis < 0));
    byId("whatif-size-field").hidden = !isOpen;
    const estimate = await told(`${path}/estimate`, {
      method: "POST",
      headers: { "content-type": "application/json", ...withKey(shownKey), ...wishes() },
      body: JSON.stringify({ inputs: described.inputs.map(input) }),
    });
    const found = sentences(estimate);
    if (isOpen) found.push(`Open axes were taken as ${byId("whatif-size").value}.`);
    say(answer, stateOf(estimate), found);
  } catch (error) {
    if (error.status === 401) byId("whatif-tenant-field").hidden = false;
    say(answer, "bad", [error.message]);
  }
}

/** What the form says besides the model, as headers have it. */
function wishes() {
  const found = {};
  for (const [id, name] of [["tier", "headway-tier"], ["budget", "headway-budget-ms"], ["priority", "headway-priority"]]) {
    const { value } = byId(`whatif-${id}`);
    if (value) found[name] = value;
  }
  return found;
}

/** An input that is only described; its first open axis is that of the rows. */
function input({ name, datatype, shape }) {
  const rows = Number(byId("whatif-rows").value);
  const size = Number(byId("whatif-size").value);
  return { name, datatype, shape: shape.map((axis, index) => (axis >= 0 ? axis : index === 0 ? rows : size)) };
}

async function told(path, options) {
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Error("The server did not answer.");
  }
  const body = await answer.json().catch(() => ({}));
  if (answer.ok) return body;
  throw Object.assign(new Error(body.error ?? `The server answered ${answer.status}.`), { status: answer.status });
}

/** How good the answer is: surely in time, perhaps, or not. */
function stateOf({ admitted, is_known: isKnown, will_meet_deadline: meets }) {
  if (!admitted) return "bad";
  if (meets.bound) return "good";
  return meets.expected || !isKnown ? "warn" : "bad";
}

function sentences(estimate) {
  const limit = estimate.limit === "tier" ? `tier ${estimate.tier}` : estimate.limit;
  const found = [];
  if (!estimate.admitted) {
    const again = estimate.retry_after_ms ? ` It may come again in ${time(estimate.retry_after_ms)}.` : "";
    found.push(`It would get no place: ${reason("rejected", estimate.reason)}.${again}`);
  } else if (!estimate.is_known) {
    found.push(`It would be let in; how long it takes is not known yet. Its deadline: ${time(estimate.deadline_ms)} (${limit}).`);
  } else {
    const { expected, bound } = estimate.will_meet_deadline;
    const verdict = bound
      ? `in time, with at least ${time(estimate.deadline_ms - estimate.bound_ms)} to spare`
      : expected ? "probably in time, though not surely" : "too late";
    found.push(`It would be let in and answered ${verdict}.`);
  }
  if (estimate.is_known) {
    found.push(
      `Expected after ${time(estimate.expected_ms)}, at most ${time(estimate.bound_ms)}; due after ${time(estimate.deadline_ms)} (${limit}).`,
    );
    const parts = PARTS.filter(([name]) => estimate.parts_ms[name] >= 0.05).map(([name, words]) => `${time(estimate.parts_ms[name])} ${words}`);
    if (parts.length) found.push(`Of that: ${parts.join(", ")}.`);
  }
  return found;
}

function say(answer, state, texts) {
  answer.dataset.state = state;
  answer.replaceChildren(...texts.map((text, index) => h("p", { className: index ? "" : "lead" }, text)));
}
