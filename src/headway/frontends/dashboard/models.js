// States of models, and buttons to load, reload and unload them.

import { byId, fill, h } from "./dom.js";
import { withKey } from "./stream.js";

let acted = ""; // the model whose button had the focus, which goes with it when states change

const SIGNS = { READY: "●", LOADING: "◐", UNLOADING: "◐", UNAVAILABLE: "○" };

/** Show the list; buttons are made anew only when a state changes, so that one keeps the focus. */
export function showModels(glance, keyOf) {
  const rows = [...glance.models].sort((a, b) => a.name.localeCompare(b.name));
  const canLoad = glance.about.can_load;
  byId("models-hint").textContent = canLoad
    ? "A model that is reloaded serves until its new version does."
    : "This server does not let models be loaded or unloaded.";
  fill(byId("models"), [rows, canLoad], () => [
    h("thead", {}, h("tr", {}, ...["Model", "State", ""].map((title) =>
      h("th", { scope: "col" }, title || h("span", { className: "hidden" }, "Actions"))))),
    h("tbody", {}, ...rows.map((row) => line(row, canLoad, keyOf))),
  ]);
  giveBackFocus();
}

/** To a button of the same model, unless its user has gone elsewhere meanwhile. */
function giveBackFocus() {
  if (!acted || document.activeElement !== document.body) return;
  const buttons = [...byId("models").querySelectorAll("button:enabled")];
  buttons.find((each) => each.dataset.model === acted)?.focus();
}

function line(row, canLoad, keyOf) {
  const isReady = row.state === "READY";
  const button = (action, path, words) =>
    h("button", {
      type: "button",
      className: "quiet",
      disabled: !canLoad || row.state === "LOADING" || row.state === "UNLOADING",
      attrs: { "aria-label": `${words} ${row.name}` },
      data: { action, model: row.name },
      onclick: (event) => act(event.currentTarget, row.name, path, words, keyOf()),
    }, words);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, row.name, row.version ? h("small", {}, `version ${row.version}`) : null),
    h("td", { className: `state ${row.state.toLowerCase()}` },
      h("span", { attrs: { "aria-hidden": "true" } }, `${SIGNS[row.state] ?? "○"} `), row.state.toLowerCase(),
      row.reason ? h("small", { className: "reason" }, row.reason) : null),
    h("td", { className: "actions" },
      isReady ? button("reload", "load", "Reload") : button("load", "load", "Load"),
      isReady ? button("unload", "unload", "Unload") : null),
  );
}

async function act(button, model, path, words, key) {
  const result = byId("models-result");
  acted = model;
  button.disabled = true;
  result.dataset.state = "wait";
  result.textContent = `${words} ${model}: under way`;
  try {
    const answer = await fetch(`/v2/repository/models/${encodeURIComponent(model)}/${path}`, {
      method: "POST", headers: { "content-type": "application/json", ...withKey(key) }, body: "{}",
    });
    const body = await answer.json().catch(() => ({}));
    result.dataset.state = answer.ok ? "good" : "bad";
    result.textContent = answer.ok ? `${words} ${model}: done` : `${words} ${model}: ${body.error ?? answer.status}`;
  } catch {
    result.dataset.state = "bad";
    result.textContent = `${words} ${model}: the server did not answer`;
  } finally {
    button.disabled = false;
    giveBackFocus();
  }
}
