// @ts-check
// The layers of a graph: the layer of each node, and the route of each edge through the layers between its ends.

/** The extent of a bend in its layer, in pixels. */
const BEND = 22;
/**
 * An edge over more layers than this runs in a lane next to the graph. With bends in every layer, the cost of a layout
 * would be the number of edges times the number of layers.
 */
const MOST_LAYERS = 12;

/**
 * A node of the graph to lay out; `label` is for the caller.
 *
 * @template L
 * @typedef {{ id: string, inputs: { id: string, label: L }[] }} GraphNode
 */

/**
 * An item in a layer: a node, the bend of an edge (`id` is null), or the lane of a long edge. A lane runs from `layer` to
 * `until`; for other items both are the same. `order` is the number of the item in its layer, `at` the position of its
 * middle. `before` and `behind` are its neighbours in the previous and the next layer.
 *
 * @typedef {{
 *   id: string | null,
 *   layer: number,
 *   until: number,
 *   extent: number,
 *   order: number,
 *   at: number,
 *   before: Item[],
 *   behind: Item[],
 * }} Item
 */

/**
 * An edge with the items it runs through, including its ends; `lane` is one of them if the edge is long.
 *
 * @template L
 * @typedef {{ from: string, to: string, label: L, through: Item[], lane: Item | null }} EdgeRoute
 */

/**
 * The layer of each node: the one after the last of its inputs. A source is placed directly before its first reader.
 *
 * @template L
 * @param {GraphNode<L>[]} nodes
 */
export function layersOf(nodes) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  /** @type {Map<string, number>} */
  const layerOf = new Map();
  /** @type {Set<string>} */
  const seen = new Set();
  for (const start of nodes) {
    if (seen.has(start.id)) continue;
    // Depth-first without recursion, because a path may be longer than the call stack.
    seen.add(start.id);
    const path = [{ node: start, next: 0, layer: 0 }];
    for (let top = path.at(-1); top; top = path.at(-1)) {
      if (top.next === top.node.inputs.length) {
        layerOf.set(top.node.id, top.layer);
        path.pop();
        const reader = path.at(-1);
        if (reader) reader.layer = Math.max(reader.layer, top.layer + 1);
        continue;
      }
      const input = known.get(top.node.inputs[top.next].id);
      top.next += 1;
      if (!input) continue;
      if (seen.has(input.id)) {
        top.layer = Math.max(top.layer, (layerOf.get(input.id) ?? 0) + 1); // no layer yet: the input is part of a cycle
      } else {
        seen.add(input.id);
        path.push({ node: input, next: 0, layer: 0 });
      }
    }
  }
  /** @type {Map<string, number>} */
  const firstReader = new Map();
  for (const node of nodes) {
    const layer = layerOf.get(node.id) ?? 0;
    for (const { id } of node.inputs) firstReader.set(id, Math.min(layer, firstReader.get(id) ?? layer));
  }
  for (const node of nodes) {
    const first = firstReader.get(node.id);
    if (node.inputs.length === 0 && first !== undefined) layerOf.set(node.id, Math.max(0, first - 1));
  }
  return layerOf;
}

/**
 * The items of all layers, linked to their neighbours, and the route of each edge. `extent` is that of a node.
 *
 * @template L
 * @param {GraphNode<L>[]} nodes
 * @param {number} extent
 */
export function withBends(nodes, extent) {
  const layerOf = layersOf(nodes);
  /** @type {Item[][]} */
  const layers = [];
  /** @type {EdgeRoute<L>[]} */
  const routes = [];
  /** @type {Map<string, Item>} */
  const items = new Map();
  for (const layer of layerOf.values()) while (layers.length <= layer) layers.push([]);
  for (const { id } of nodes) {
    const item = itemOf(id, layerOf.get(id) ?? 0, extent);
    items.set(id, item);
    layers[item.layer].push(item);
  }

  /** @param {number} layer */
  const bend = (layer) => {
    const item = itemOf(null, layer, BEND);
    layers[layer].push(item);
    return item;
  };

  for (const node of nodes) {
    const to = /** @type {Item} */ (items.get(node.id));
    for (const { id, label } of node.inputs) {
      const from = items.get(id);
      if (!from || from.layer >= to.layer) continue;
      const isLong = to.layer - from.layer > MOST_LAYERS;
      const lane = isLong ? itemOf(null, from.layer + 2, 0, to.layer - 2) : null;
      const through = [from];
      if (lane) through.push(bend(from.layer + 1), lane, bend(to.layer - 1));
      else for (let layer = from.layer + 1; layer < to.layer; layer += 1) through.push(bend(layer));
      through.push(to);
      for (let at = 1; at < through.length; at += 1) link(through[at - 1], through[at], lane);
      routes.push({ from: id, to: node.id, label, through, lane });
    }
  }
  return { layers, routes };
}

/**
 * @param {string | null} id
 * @param {number} layer
 * @param {number} extent
 * @param {number} [until]
 * @returns {Item}
 */
function itemOf(id, layer, extent, until = layer) {
  return { id, layer, until, extent, order: 0, at: 0, before: [], behind: [] };
}

/**
 * Makes two items neighbours. A lane has no neighbours, because it is not in the sorted layers.
 *
 * @param {Item} from
 * @param {Item} to
 * @param {Item | null} lane
 */
function link(from, to, lane) {
  if (from === lane || to === lane) return;
  from.behind.push(to);
  to.before.push(from);
}

/**
 * Places the lanes of long edges next to each other, starting at `edge`, so that they do not overlap. Returns the position
 * after the last one.
 *
 * @param {Item[]} lanes
 * @param {number} layers
 * @param {number} edge
 * @param {number} gap
 */
export function placeLanes(lanes, layers, edge, gap) {
  /** @type {Item[][]} */
  const starting = Array.from({ length: layers }, () => []);
  /** @type {number[][]} */
  const leaving = Array.from({ length: layers + 1 }, () => []);
  for (const lane of lanes) starting[lane.layer].push(lane);
  /** @type {number[]} */
  const free = [];
  let made = 0;
  for (let layer = 0; layer < layers; layer += 1) {
    for (const place of leaving[layer]) free.push(place);
    for (const lane of starting[layer]) {
      const place = free.pop() ?? made++;
      lane.at = edge + (place + 1) * gap;
      leaving[lane.until + 1].push(place);
    }
  }
  return made ? edge + (made + 1) * gap : edge;
}
