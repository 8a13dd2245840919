// Two policies, the same requests in turn: what `headway demo --ui` shows. The story comes from the demo, and
// pictures of the slots from the servers themselves.

import { knowTiers, tierClass } from "./colours.js";
import { byId, fill, h } from "./dom.js";
import { Slots } from "./slots.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";
import { count, percent, ratioOf, time } from "./words.js";

const PERIOD_MS = 500;
const AFTER_MS = 900; // a turn's last batches are still to be seen to their end
const SPAN_MS = 3000;

const players = [];

/** One policy: its part of the page, and the stream of its server. */
class Player {
  #store = new Store();
  #slots;
  #playedAt = -Infinity;
  #stream;

  constructor(index, side) {
    const id = `side-${index}`;
    this.root = byId(id);
    this.part = Object.fromEntries(["turn", "bars", "bounds"].map((name) => [name, h("div", { className: name })]));
    const picture = h("div", { className: "slots" });
    this.root.append(
      h("header", {}, h("h2", { id: `${id}-title` }, side.policy), this.part.turn),
      h("p", { className: "hint words" }, side.words),
      this.part.bars,
      h("h3", {}, "Its slots"),
      picture,
      this.part.bounds,
      h("p", {}, h("a", { href: `${side.url}/ui`, target: "_blank", rel: "noopener" }, `All of the server with ${side.policy}`)),
    );
    this.#slots = new Slots(picture, this.#store);
    this.#slots.spanMs = SPAN_MS;
    this.#stream = new Stream(`${side.url}/admin/events`, {
      event: (name, glance) => this.#take(name, glance),
      state: () => {},
    });
  }

  /** Begin to look at the server, which must be there. */
  watch() {
    this.#stream?.start();
    this.watch = () => {};
  }

  /** Show how it stands; between its turns the picture stays as its last turn left it. */
  show(story, side, isActive) {
    const now = performance.now();
    if (isActive) this.#playedAt = now;
    this.#slots.isPaused = side.turns > 0 && now - this.#playedAt > AFTER_MS;
    this.root.dataset.active = String(isActive);
    fill(this.part.turn, [isActive, isActive ? Math.floor(story.elapsed_s) : side.turns], () => turnOf(story, side, isActive));
    fill(this.part.bars, [story.tiers, side.tallies, side.now], () => story.tiers.map((tier) => bar(tier, side)));
  }

  #take(name, glance) {
    if (this.#slots.isPaused && name !== "whole") return;
    knowTiers(glance.tiers);
    this.#store.take(name, glance);
    const { latency } = glance;
    if (!latency.judged) return;
    fill(this.part.bounds, latency, () => [
      h("p", { className: "hint" }, "Told at arrival how long it takes at most: ",
        h("strong", {}, percent(latency.covered / latency.judged)), ` of ${count(latency.judged)} such bounds held.`),
    ]);
  }
}

function turnOf(story, side, isActive) {
  if (!isActive) return [h("span", { className: "chip" }, side.turns ? `${side.turns} ${side.turns === 1 ? "turn" : "turns"} played` : "waits for its turn")];
  const progress = h("progress", { max: story.turn_s, value: story.elapsed_s, attrs: { "aria-label": `Turn of ${side.policy}` } });
  return [h("span", { className: "chip now" }, `plays, ${Math.floor(story.elapsed_s)} of ${story.turn_s} s`), progress];
}

/** What became of the requests of a tier, as a bar and in words. */
function bar(tier, side) {
  const tally = side.tallies[tier.name] ?? { requests: 0, in_time: 0, late: 0, refused: 0, given_up: 0, failed: 0 };
  const [ended, letDown] = side.now[tier.name] ?? [0, 0];
  const all = tally.requests + ended;
  const kept = tally.in_time + ended - letDown;
  const parts = [
    ["kept", kept, "in time"],
    ["refused", tally.refused, "refused at once"],
    ["given-up", tally.given_up, "given up while it waited"],
    ["late", tally.late + tally.failed, "late or failed"],
    ["late", letDown, "let down in this turn"],
  ].filter(([, number]) => number > 0);
  const segments = parts.map(([name, number]) => {
    const segment = h("span", { className: `seg ${name}` });
    segment.style.width = `${(100 * number) / all}%`;
    return segment;
  });
  const words = parts.map(([, number, what]) => `${count(number)} ${what}`).join(", ");
  return h(
    "div",
    { className: `duel-tier ${tierClass(tier.name)}`, data: { tier: tier.name } },
    h("span", { className: "name" }, h("span", { className: "swatch", attrs: { "aria-hidden": "true" } }), tier.name),
    h("span", { className: "stack", attrs: { "aria-hidden": "true" } }, ...segments),
    h("strong", { className: "value" }, percent(ratioOf({ ended: all, in_time: kept }))),
    h("small", { className: "words" }, words || "nothing yet"),
  );
}

/** How far it is, in words. */
function stateOf(story) {
  if (story.phase === "preparing") return ["wait", "Preparing"];
  if (story.phase === "over") return ["wait", "Over"];
  if (story.active === null) return ["live", "Between two turns"];
  return ["live", `${story.sides[story.active].policy} plays`];
}

function show(story) {
  byId("machine").textContent = story.machine;
  tell(...stateOf(story));
  byId("note").textContent = story.note;
  knowTiers(story.tiers);
  fill(byId("asked"), story.tiers, () =>
    story.tiers.map((tier) =>
      h("li", { className: tierClass(tier.name) },
        h("span", { className: "swatch", attrs: { "aria-hidden": "true" } }),
        h("strong", {}, tier.name), ` within ${time(tier.budget_ms)}, ${tier.rate_rps} a second `,
        h("small", {}, tier.models.join(", ")))));
  const verdict = byId("verdict");
  const words = story.verdict || `Each policy plays ${story.turn_s} s at a time; what it changes is said here once both have played.`;
  if (verdict.textContent !== words) verdict.textContent = words;
  story.sides.forEach((side, index) => {
    players[index] ??= new Player(index, side);
    if (story.phase !== "preparing") players[index].watch();
    players[index].show(story, side, story.active === index);
  });
}

function tell(state, words) {
  byId("status").dataset.state = state;
  if (byId("status-words").textContent !== words) byId("status-words").textContent = words;
}

async function ask() {
  try {
    const answer = await fetch("/story", { cache: "no-store" });
    show(await answer.json());
  } catch {
    tell("lost", "The demo has ended");
  }
  setTimeout(ask, PERIOD_MS);
}

ask();
