// Small ways to build and change the page. Texts are only ever set as text: names of models and tenants come
// from files and from requests, and none of them is trusted to be no markup.

export const byId = (id) => document.getElementById(id);

/** An element with properties, attributes (in `attrs`), data and children. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  const { attrs = {}, data = {}, ...rest } = props;
  Object.assign(element, rest);
  for (const [name, value] of Object.entries(attrs)) element.setAttribute(name, value);
  Object.assign(element.dataset, data);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const shown = new WeakMap();

/** Put children in place of others, unless `what` is as it was at the last call. */
export function fill(element, what, make) {
  const key = JSON.stringify(what);
  if (shown.get(element) === key) return;
  shown.set(element, key);
  element.replaceChildren(...make());
}

/** A table: columns are {title, number, cell}; `empty` is said where there are no rows. */
export function table(element, columns, rows, empty) {
  if (!element.tHead) {
    const cells = columns.map((c) => h("th", { scope: "col", className: c.number ? "number" : "" }, c.title));
    element.append(h("thead", {}, h("tr", {}, ...cells)), h("tbody"));
  }
  const body = element.tBodies[0];
  const lines = rows.length
    ? rows.map((row) =>
        h("tr", {}, ...columns.map((c, index) => {
          const cell = c.cell(row);
          const props = { className: c.number ? "number" : "" };
          return index === 0
            ? h("th", { ...props, scope: "row" }, cell)
            : h("td", props, cell);
        })))
    : [h("tr", {}, h("td", { colSpan: columns.length, className: "empty" }, empty))];
  const fresh = h("tbody", {}, ...lines);
  if (!fresh.isEqualNode(body)) body.replaceWith(fresh); // else what is read or marked in it stays
}

/** A bar for a part of a whole; its number stands beside it as text. */
export function meter(ratio, className = "") {
  const bar = h("span", { className: `meter ${className}`, attrs: { "aria-hidden": "true" } }, h("span"));
  bar.firstChild.style.width = `${Math.max(0, Math.min(1, ratio)) * 100}%`;
  return bar;
}
