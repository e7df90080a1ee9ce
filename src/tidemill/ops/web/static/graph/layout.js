// @ts-check
// The layout of the nodes and edges of a dataflow graph: in layers starting at the sources, with few crossings and short
// edges. The cost is linear in the number of edges, except for sorting.
//
// 1. The layer of a node is the one after the last of its inputs; a source is directly before its first reader.
// 2. An edge over several layers gets a bend in each layer in between, which is treated as a small node. An edge over
//    very many layers has a bend at each end, and between them a lane next to the graph.
// 3. Each layer is sorted by the mean position of its neighbours, in forward and backward sweeps.
// 4. Each node moves as close to the mean position of its neighbours as the other nodes of its layer allow.
//
// Everything is computed as if layers were columns; "down" rotates the result.

import { placeLanes, withBends } from "./layers.js";
import { place, putInOrder } from "./ordering.js";

/** @import { EdgeRoute, GraphNode } from "./layers.js" */

/** The distance between two lanes, in pixels. */
const LANE = 10;

/** @typedef {"across" | "down"} Direction */
/** @typedef {{ width: number, height: number, gaps: { layers: number, nodes: number } }} Sizes */
/** @typedef {{ x: number, y: number, layer: number }} Place */
/** @typedef {[number, number]} Point */

/**
 * An edge as it is drawn; x and y are the position of its label.
 *
 * @template L
 * @typedef {{ from: string, to: string, label: L, path: string, x: number, y: number }} DrawnEdge
 */

/**
 * `size` has the width and height of a node, and the gaps between layers and between nodes.
 *
 * @template L
 * @param {GraphNode<L>[]} nodes
 * @param {Sizes} size
 * @param {Direction} [direction]
 */
export function layout(nodes, size, direction = "across") {
  const down = direction === "down";
  const [along, beside] = down ? [size.height, size.width] : [size.width, size.height];
  const { layers, routes } = withBends(nodes, beside);
  putInOrder(layers);
  const [lowest, behind] = place(layers, size.gaps.nodes);
  const lanes = routes.flatMap(({ lane }) => (lane ? [lane] : []));
  const highest = placeLanes(lanes, layers.length, behind, LANE);

  /** @param {number} layer */
  const start = (layer) => layer * (along + size.gaps.layers);
  /** @type {(a: number, b: number) => Point} */
  const point = (a, b) => (down ? [b - lowest, a] : [a, b - lowest]);
  const whole = [start(Math.max(0, layers.length - 1)) + along, highest - lowest];

  /** @type {Map<string, Place>} */
  const places = new Map();
  for (const { id, layer, at, extent } of layers.flat()) {
    if (id === null) continue;
    const [x, y] = point(start(layer), at - extent / 2);
    places.set(id, { x, y, layer });
  }
  const shifts = ports(routes);
  return {
    width: down ? whole[1] : whole[0],
    height: down ? whole[0] : whole[1],
    places,
    edges: routes.map((route) => drawnEdge(route, shifts.get(route) ?? [0, 0], start, along, point)),
  };
}

/**
 * The distances of the start and the end of each edge from the middle of its node, so that edges are side by side.
 *
 * @template L
 * @param {EdgeRoute<L>[]} routes
 */
function ports(routes) {
  /** @type {Map<EdgeRoute<L>, [number, number]>} */
  const shifts = new Map(routes.map((route) => [route, [0, 0]]));
  for (const end of /** @type {const} */ ([0, 1])) {
    /** @type {Map<string, EdgeRoute<L>[]>} */
    const byNode = new Map();
    for (const route of routes) {
      const node = end ? route.to : route.from;
      const some = byNode.get(node);
      if (some) some.push(route);
      else byNode.set(node, [route]);
    }
    /** @param {EdgeRoute<L>} route */
    const other = ({ through }) => through[end ? through.length - 2 : 1].at;
    for (const some of byNode.values()) {
      some.sort((a, b) => other(a) - other(b));
      const step = Math.min(16, 60 / some.length);
      some.forEach((route, at) => {
        const shift = shifts.get(route);
        if (shift) shift[end] = (at - (some.length - 1) / 2) * step;
      });
    }
  }
  return shifts;
}

/**
 * @template L
 * @param {EdgeRoute<L>} route
 * @param {[number, number]} shift
 * @param {(layer: number) => number} start
 * @param {number} along
 * @param {(a: number, b: number) => Point} point
 * @returns {DrawnEdge<L>}
 */
function drawnEdge({ from, to, label, through }, [out, into], start, along, point) {
  let [a, b] = [start(through[0].layer) + along, through[0].at + out];
  let path = `M${text(point(a, b))}`;
  let [x, y] = point(a, b);
  through.slice(1).forEach((item, index) => {
    const isLast = index === through.length - 2;
    const [c, d] = [start(item.layer), item.at + (isLast ? into : 0)];
    const half = (c - a) / 2;
    path += `C${text(point(a + half, b))} ${text(point(c - half, d))} ${text(point(c, d))}`;
    if (isLast) [x, y] = point(a + half, (b + d) / 2);
    else path += `L${text(point(start(item.until) + along, d))}`;
    [a, b] = [start(item.until) + along, d];
  });
  return { from, to, label, path, x, y };
}

/** @param {Point} point */
function text([x, y]) {
  return `${Number(x.toFixed(1))} ${Number(y.toFixed(1))}`;
}
