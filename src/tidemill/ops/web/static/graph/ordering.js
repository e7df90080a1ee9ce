// @ts-check
// The order of the items in each layer, with few crossings, and the position of each item in its layer.

/** @import { Item } from "./layers.js" */

/** How often layers are sorted and items are moved: a fixed number, so that the cost is linear in the edges. */
const SWEEPS = 10;

/**
 * Sorts each layer by the mean position of its neighbours, in forward and backward sweeps, and keeps the order with the
 * fewest crossings.
 *
 * @param {Item[][]} layers
 */
export function putInOrder(layers) {
  layers.forEach(number);
  let best = { crossings: crossings(layers), layers: layers.map((layer) => [...layer]) };
  for (let sweep = 0; sweep < SWEEPS && best.crossings > 0; sweep += 1) {
    if (sweep % 2 === 0) for (let at = 1; at < layers.length; at += 1) sort(layers[at], "before");
    else for (let at = layers.length - 2; at >= 0; at -= 1) sort(layers[at], "behind");
    const now = crossings(layers);
    if (now < best.crossings) best = { crossings: now, layers: layers.map((layer) => [...layer]) };
  }
  best.layers.forEach((layer, at) => {
    layers[at] = layer;
    number(layer);
  });
}

/** @param {Item[]} layer */
function number(layer) {
  layer.forEach((item, at) => {
    item.order = at;
  });
}

/**
 * @param {Item[]} layer
 * @param {"before" | "behind"} side
 */
function sort(layer, side) {
  const middle = new Map(layer.map((item) => [item, mean(item[side], item.order)]));
  /** @param {Item} item */
  const wanted = (item) => middle.get(item) ?? item.order;
  layer.sort((a, b) => wanted(a) - wanted(b) || a.order - b.order);
  number(layer);
}

/**
 * @param {Item[]} items
 * @param {number} otherwise
 */
function mean(items, otherwise) {
  if (items.length === 0) return otherwise;
  let sum = 0;
  for (const item of items) sum += item.order;
  return sum / items.length;
}

/**
 * The number of pairs of links between neighbouring layers that cross.
 *
 * @param {Item[][]} layers
 */
export function crossings(layers) {
  let found = 0;
  for (let at = 0; at + 1 < layers.length; at += 1) found += crossingsBetween(layers[at], layers[at + 1].length);
  return found;
}

/**
 * Two links cross if their ends are in opposite order: an inversion. A Fenwick tree over the positions in the next layer
 * counts, for each link, the links of earlier items that end after it.
 *
 * @param {Item[]} layer
 * @param {number} width
 */
function crossingsBetween(layer, width) {
  const tree = new Uint32Array(width + 1);
  let [found, entered] = [0, 0];
  for (const { behind } of layer) {
    for (const { order } of behind) {
      let upTo = 0;
      for (let at = order + 1; at > 0; at -= at & -at) upTo += tree[at];
      found += entered - upTo;
    }
    for (const { order } of behind) for (let at = order + 1; at <= width; at += at & -at) tree[at] += 1;
    entered += behind.length;
  }
  return found;
}

/**
 * Moves each item as close to the mean position of its neighbours as the other items of its layer allow. Sets `at` of all
 * items, and returns the lowest and the highest occupied position.
 *
 * @param {Item[][]} layers
 * @param {number} gap
 */
export function place(layers, gap) {
  for (const layer of layers) {
    let next = 0;
    for (const item of layer) {
      item.at = next + item.extent / 2;
      next += item.extent + gap;
    }
    for (const item of layer) item.at -= (next - gap) / 2;
  }
  for (let round = 0; round < SWEEPS; round += 1) {
    for (let at = 0; at < layers.length; at += 1) {
      const layer = layers[round % 2 ? layers.length - 1 - at : at];
      const found = apart(layer, layer.map(between), gap);
      layer.forEach((item, index) => {
        item.at = found[index];
      });
    }
  }
  let [lowest, highest] = [Infinity, -Infinity];
  for (const layer of layers) {
    for (const { at, extent } of layer) {
      lowest = Math.min(lowest, at - extent / 2);
      highest = Math.max(highest, at + extent / 2);
    }
  }
  return lowest > highest ? [0, 0] : [lowest, highest];
}

/** @param {Item} item */
function between({ at, before, behind }) {
  const count = before.length + behind.length;
  if (count === 0) return at;
  let sum = 0;
  for (const one of before) sum += one.at;
  for (const one of behind) sum += one.at;
  return sum / count;
}

/**
 * The positions closest to the wanted ones that keep the order and the gaps: blocks that would overlap are shifted together.
 *
 * @param {{ extent: number }[]} layer
 * @param {number[]} wanted
 * @param {number} gap
 */
export function apart(layer, wanted, gap) {
  /** @type {number[]} */
  const offsets = [];
  layer.forEach((item, at) => offsets.push(at ? offsets[at - 1] + (layer[at - 1].extent + item.extent) / 2 + gap : 0));
  /** @type {{ sum: number, size: number }[]} */
  const blocks = [];
  wanted.forEach((value, at) => {
    let last = { sum: value - offsets[at], size: 1 };
    for (let previous = blocks.at(-1); previous; previous = blocks.at(-1)) {
      if (previous.sum / previous.size <= last.sum / last.size) break;
      last = { sum: previous.sum + last.sum, size: previous.size + last.size };
      blocks.pop();
    }
    blocks.push(last);
  });
  /** @type {number[]} */
  const found = [];
  for (const { sum, size } of blocks) {
    for (let index = 0; index < size; index += 1) found.push(sum / size + offsets[found.length]);
  }
  return found;
}
