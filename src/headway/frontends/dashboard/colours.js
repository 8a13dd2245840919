// A colour for each tier, the same all over the page; never the only sign of anything.

const COUNT = 6;
const indexes = new Map();

/** Know the tiers, in their order. */
export function knowTiers(tiers) {
  for (const tier of tiers) if (!indexes.has(tier.name)) indexes.set(tier.name, indexes.size % COUNT);
}

/** The class that has the colour of a tier as its `--tier`. */
export const tierClass = (tier) => `tier-${indexes.get(tier) ?? COUNT - 1}`;

const colours = new Map(); // to ask for each of many boxes in each picture would cost more than to draw them
document.documentElement.addEventListener("themechange", () => colours.clear());

/** A colour of the style sheet, as canvas wants it. */
export function colour(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colours.get(name);
}

export const tierColour = (tier) => colour(`--tier-${indexes.get(tier) ?? COUNT - 1}`);
