// The page: one stream in, every section out.

import { byId, fill, h } from "./dom.js";
import { showModels } from "./models.js";
import { showCalibration, showCoverage } from "./prediction.js";
import { showRunning, Slots } from "./slots.js";
import { Store } from "./store.js";
import { Stream, withKey } from "./stream.js";
import { showQueues, showRefusals, showTenants } from "./tables.js";
import { showHistory, showTiers } from "./tiers.js";
import { offerChoices, setUpWhatIf } from "./whatif.js";
import { time } from "./words.js";

const store = new Store();
let key = ""; // in memory alone: a page that is closed has forgotten it
const keyOf = () => key;

function show() {
  const { glance } = store;
  if (!glance) return;
  showFacts(glance);
  showTiers(glance);
  showHistory(store);
  showRunning(glance);
  showQueues(glance);
  showCoverage(glance);
  showCalibration(store);
  showTenants(glance);
  showRefusals(store);
  showModels(glance, keyOf);
  offerChoices(glance);
}

function showFacts({ about, now_ms: now }) {
  byId("emulated").hidden = !about.is_emulated;
  const facts = [["Policy", about.policy], ["Predictor", about.predictor], ["Version", about.version]];
  fill(byId("facts"), facts, () => [
    ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
    h("div", {}, h("dt", {}, "Up"), h("dd", { id: "uptime" })),
  ]);
  byId("uptime").textContent = time(Math.floor(now / 1000) * 1000);
}

/** How the connection is; said once, and aloud, when it changes. */
function tellState(name, words) {
  const status = byId("status");
  if (status.dataset.state !== name) {
    status.dataset.state = name;
    byId("status-words").textContent = name === "live" ? "Live" : name === "locked" ? "Locked" : "Lost, trying again";
  }
  const problem = byId("problem");
  problem.hidden = name === "live";
  if (name === "live" && !byId("key-form").hidden) forgetTyped();
  if (name !== "live" && problem.textContent !== words) problem.textContent = words;
  if (name === "locked") {
    byId("key-form").hidden = false;
    byId("key").focus();
  }
}

/** A key that is accepted stays in memory alone, and leaves nothing on the page to be looked at. */
function forgetTyped() {
  const form = byId("key-form");
  const hadFocus = form.contains(document.activeElement);
  byId("key").value = "";
  form.hidden = true;
  if (hadFocus) byId("main").focus();
}

const stream = new Stream("/admin/events", {
  event(name, glance) {
    store.take(name, glance);
    show();
  },
  state: tellState,
});

const slots = new Slots(byId("slots"), store);

byId("slots-span").addEventListener("change", (event) => {
  slots.spanMs = Number(event.target.value) * 1000;
});
byId("slots-pause").addEventListener("click", (event) => {
  slots.isPaused = !slots.isPaused;
  event.currentTarget.setAttribute("aria-pressed", String(slots.isPaused));
});
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const typed = byId("key").value.trim();
  if (!/^[\x21-\x7e]+$/.test(typed)) return tellState("locked", "That is no key: it has only letters, digits and signs of ASCII");
  key = typed;
  stream.start(key);
});
document.documentElement.addEventListener("themechange", show);
addEventListener("resize", show);
byId("running").closest("details").addEventListener("toggle", show);

/** What was to be kept could not be had; the answer is no file of it. */
async function tellDownload(answer, name) {
  const body = await answer?.json().catch(() => ({}));
  byId("foot-result").textContent = `${name}: ${body?.error ?? "the server did not answer"}`;
}

// A link cannot show a key either, so what it leads to is fetched and then kept.
for (const link of document.querySelectorAll("a[data-admin]")) {
  link.addEventListener("click", async (event) => {
    if (!key) return;
    event.preventDefault();
    const answer = await fetch(link.href, { headers: withKey(key) }).catch(() => null);
    if (!answer?.ok) return tellDownload(answer, link.textContent);
    byId("foot-result").textContent = "";
    const url = URL.createObjectURL(await answer.blob());
    h("a", { href: url, download: link.download }).click();
    URL.revokeObjectURL(url);
  });
}

setUpWhatIf(keyOf);
stream.start();
