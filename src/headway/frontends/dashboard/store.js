// What is known of one server: the last glance, and a bounded past of it.

import { ratioOf } from "./words.js";

const ENDED_MS = 60_000;
const ENDED_MAX = 6000;
const REFUSALS_MAX = 50;
const HISTORY_MAX = 600; // points of each tier: five minutes
const NOW_S = 10;
const SILENT_MS = 1500; // after so long without a word time stands still, for nothing is known of it
const DELAY_MS = 700; // what has ended is told up to half a second later

export class Store {
  glance = null;
  ended = [];
  refusals = [];
  history = { at: [], tiers: new Map() };
  #step = 0;
  #clock = null;

  /** Take a glance: `whole` for the first, `next` for what is new. */
  take(name, glance) {
    if (name === "whole") {
      this.ended = [];
      this.refusals = [];
      this.history = { at: [], tiers: new Map() };
      this.#step = 0;
      this.#clock = null;
      this.#begin(glance);
    }
    for (const row of glance.ended) {
      if (row[0] >= this.#step) this.ended.push(batchOf(row));
    }
    for (const refusal of glance.refusals) {
      if (refusal.step >= this.#step) this.refusals.push(refusal);
    }
    this.#step = glance.step;
    const from = glance.now_ms - ENDED_MS;
    if (this.ended.length && this.ended[0].end < from) this.ended = this.ended.filter((b) => b.end >= from);
    if (this.ended.length > ENDED_MAX) this.ended.splice(0, this.ended.length - ENDED_MAX);
    this.refusals.splice(0, this.refusals.length - REFUSALS_MAX);
    this.glance = glance;
    this.#set(glance);
    if (name !== "whole") this.#remember(glance);
  }

  /** The server's clock as it was a moment ago: all that had ended by then is known. */
  shownMs() {
    if (this.#clock === null) return 0;
    return Math.min(performance.now() + this.#clock, this.glance.now_ms + SILENT_MS) - DELAY_MS;
  }

  /** Events are late by what the network takes, never early: the earliest tells the clock best. */
  #set(glance) {
    const offset = glance.now_ms - performance.now();
    if (this.#clock === null || offset > this.#clock) this.#clock = offset;
    else this.#clock += (offset - this.#clock) * 0.02;
  }

  #begin(glance) {
    const seconds = new Map(glance.seconds.map((second) => [second.at_s, second.tiers]));
    const last = Math.floor(glance.now_ms / 1000);
    const first = Math.max(last - 60, 0) + NOW_S;
    for (let at = first; at < last; at += 1) {
      const kept = new Map();
      for (let back = 0; back < NOW_S; back += 1) {
        for (const [tier, of] of Object.entries(seconds.get(at - back) ?? {})) {
          const sum = kept.get(tier) ?? { ended: 0, in_time: 0 };
          sum.ended += of.ended;
          sum.in_time += of.in_time;
          kept.set(tier, sum);
        }
      }
      const ratios = glance.tiers.map((t) => ratioOf(kept.get(t.name) ?? { ended: 0 }));
      this.#point(at + 1, glance.tiers, ratios);
    }
  }

  #remember(glance) {
    const ratios = glance.tiers.map((tier) => ratioOf(tier.now));
    this.#point(glance.now_ms / 1000, glance.tiers, ratios);
  }

  #point(at, tiers, ratios) {
    const { history } = this;
    history.at.push(at);
    tiers.forEach((tier, index) => {
      const line = history.tiers.get(tier.name) ?? [];
      history.tiers.set(tier.name, line);
      line.push(ratios[index]);
      line.splice(0, line.length - HISTORY_MAX);
    });
    history.at.splice(0, history.at.length - HISTORY_MAX);
  }
}

/** An ended batch out of its array, as `EndedBatch` of the description has it. */
function batchOf([, device, slot, model, tier, rows, start, took, expected, bound, fate]) {
  return { device, slot, model, tier, rows, start, end: start + took, took, expected, bound, fate };
}
