// Where the nodes and edges of a dataflow graph stand: in layers from the sources on, with few crossings and short edges.
//
// 1. A node's layer is one behind the last of those it reads from; a source stands just before who reads it first.
// 2. An edge over several layers gets a bend in each layer between, which takes part as a small node.
// 3. Each layer is put in order of the mean place of its neighbours, forth and back, and the order with the fewest
//    crossings is kept.
// 4. In its layer each node moves as near to the mean of its neighbours as the others allow.
//
// Everything is computed as if layers were columns; "down" turns the result.

const SWEEPS = 10;
const BEND = 22; // what a bend takes in its layer

/**
 * `nodes`: [{id, inputs: [{id, label}]}]. `size`: {width, height} of a node, {layers, nodes} of the gaps between.
 * Gives {width, height, places: Map of id -> {x, y, layer}, edges: [{from, to, label, path, x, y}]}; x and y of an edge
 * are where its label stands.
 */
export function layout(nodes, size, direction = "across") {
  const down = direction === "down";
  const [along, beside] = down ? [size.height, size.width] : [size.width, size.height];
  const layerOf = layersOf(nodes);
  const { layers, links, routes } = withBends(nodes, layerOf, beside);
  inOrder(layers, links);
  const places = placed(layers, links, size.gaps.nodes);

  const lowest = Math.min(...[...places].map(([item, at]) => at - item.extent / 2));
  const highest = Math.max(...[...places].map(([item, at]) => at + item.extent / 2));
  const start = (layer) => layer * (along + size.gaps.layers);
  const point = (a, b) => (down ? [b - lowest, a] : [a, b - lowest]);
  const whole = [start(layers.length - 1) + along, highest - lowest];

  const found = new Map();
  for (const [item, at] of places) {
    if (item.bend) continue;
    const [x, y] = point(start(item.layer), at - item.extent / 2);
    found.set(item.id, { x, y, layer: item.layer });
  }
  return {
    width: down ? whole[1] : whole[0],
    height: down ? whole[0] : whole[1],
    places: found,
    edges: routes.map((route) => edge(route, places, start, along, point, ports(routes, places))),
  };
}

function layersOf(nodes) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const layerOf = new Map();
  const open = new Set();
  const visit = (id) => {
    if (layerOf.has(id)) return layerOf.get(id);
    if (open.has(id)) return 0; // a circle: it has to begin somewhere
    open.add(id);
    const inputs = known.get(id).inputs.filter((input) => known.has(input.id));
    const layer = inputs.length ? Math.max(...inputs.map((input) => visit(input.id))) + 1 : 0;
    layerOf.set(id, layer);
    return layer;
  };
  nodes.forEach((node) => visit(node.id));
  for (const node of nodes) {
    if (node.inputs.length) continue;
    const readers = nodes.filter((other) => other.inputs.some((input) => input.id === node.id));
    if (readers.length)
      layerOf.set(node.id, Math.max(0, Math.min(...readers.map((other) => layerOf.get(other.id))) - 1));
  }
  return layerOf;
}

/** The items of all layers, nodes and bends; the links between neighbours; and of each edge the items it goes through. */
function withBends(nodes, layerOf, extent) {
  const layers = [];
  const links = [];
  const routes = [];
  const add = (item) => {
    (layers[item.layer] ??= []).push(item);
    return item;
  };
  const items = new Map(
    nodes.map((node) => [node.id, { id: node.id, layer: layerOf.get(node.id), extent, bend: false }]),
  );
  for (let layer = 0; layer <= Math.max(0, ...layerOf.values()); layer += 1) layers[layer] = [];
  for (const node of nodes) add(items.get(node.id));
  for (const node of nodes) {
    for (const input of node.inputs) {
      const [from, to] = [items.get(input.id), items.get(node.id)];
      if (!from || from.layer >= to.layer) continue;
      const through = [from];
      for (let layer = from.layer + 1; layer < to.layer; layer += 1)
        through.push(add({ layer, extent: BEND, bend: true }));
      through.push(to);
      for (let at = 1; at < through.length; at += 1) links.push([through[at - 1], through[at]]);
      routes.push({ from: input.id, to: node.id, label: input.label, through });
    }
  }
  return { layers, links, routes };
}

function inOrder(layers, links) {
  const [before, behind] = [new Map(), new Map()];
  for (const [from, to] of links) {
    before.set(to, [...(before.get(to) ?? []), from]);
    behind.set(from, [...(behind.get(from) ?? []), to]);
  }
  const number = () =>
    layers.forEach((layer) =>
      layer.forEach((item, at) => {
        item.order = at;
      }),
    );
  const sort = (layer, neighbours) => {
    const middle = new Map(
      layer.map((item) => {
        const near = neighbours.get(item) ?? [];
        return [item, near.length ? near.reduce((sum, one) => sum + one.order, 0) / near.length : item.order];
      }),
    );
    layer.sort((a, b) => middle.get(a) - middle.get(b) || a.order - b.order);
    layer.forEach((item, at) => {
      item.order = at;
    });
  };
  number();
  let best = { crossings: crossings(links), layers: layers.map((layer) => [...layer]) };
  for (let sweep = 0; sweep < SWEEPS && best.crossings > 0; sweep += 1) {
    if (sweep % 2 === 0) layers.slice(1).forEach((layer) => sort(layer, before));
    else
      [...layers]
        .reverse()
        .slice(1)
        .forEach((layer) => sort(layer, behind));
    const now = crossings(links);
    if (now < best.crossings) best = { crossings: now, layers: layers.map((layer) => [...layer]) };
  }
  best.layers.forEach((layer, at) => layers[at].splice(0, layer.length, ...layer));
  number();
}

/** How many pairs of links between the same layers cross. */
export function crossings(links) {
  const between = new Map();
  for (const link of links) {
    const layer = link[0].layer;
    between.set(layer, [...(between.get(layer) ?? []), link]);
  }
  let found = 0;
  for (const some of between.values()) {
    for (let a = 0; a < some.length; a += 1) {
      for (let b = a + 1; b < some.length; b += 1) {
        if ((some[a][0].order - some[b][0].order) * (some[a][1].order - some[b][1].order) < 0) found += 1;
      }
    }
  }
  return found;
}

/** The middle of each item in its layer. */
function placed(layers, links, gap) {
  const near = new Map();
  for (const [from, to] of links) {
    near.set(from, [...(near.get(from) ?? []), to]);
    near.set(to, [...(near.get(to) ?? []), from]);
  }
  const at = new Map();
  for (const layer of layers) {
    let next = 0;
    for (const item of layer) {
      at.set(item, next + item.extent / 2);
      next += item.extent + gap;
    }
    layer.forEach((item) => at.set(item, at.get(item) - (next - gap) / 2));
  }
  for (let round = 0; round < SWEEPS; round += 1) {
    for (const layer of round % 2 ? [...layers].reverse() : layers) {
      const wanted = layer.map((item) => {
        const others = near.get(item) ?? [];
        return others.length ? others.reduce((sum, one) => sum + at.get(one), 0) / others.length : at.get(item);
      });
      apart(layer, wanted, gap).forEach((value, index) => at.set(layer[index], value));
    }
  }
  return at;
}

/** The places nearest to those wanted that keep the order and the gaps: blocks that would overlap share their shift. */
export function apart(layer, wanted, gap) {
  const offsets = [];
  layer.forEach((item, at) => offsets.push(at ? offsets[at - 1] + (layer[at - 1].extent + item.extent) / 2 + gap : 0));
  const blocks = [];
  wanted.forEach((value, at) => {
    blocks.push({ sum: value - offsets[at], size: 1 });
    while (blocks.length > 1) {
      const [last, previous] = [blocks.at(-1), blocks.at(-2)];
      if (previous.sum / previous.size <= last.sum / last.size) break;
      previous.sum += last.sum;
      previous.size += last.size;
      blocks.pop();
    }
  });
  return blocks
    .flatMap((block) => Array(block.size).fill(block.sum / block.size))
    .map((shift, at) => shift + offsets[at]);
}

/** How far from the middle of its node each edge begins and ends, so that edges of one node stand side by side. */
function ports(routes, places) {
  const shift = new Map(routes.map((route) => [route, [0, 0]]));
  for (const [end, key] of [
    [0, "from"],
    [1, "to"],
  ]) {
    const byNode = new Map();
    for (const route of routes) byNode.set(route[key], [...(byNode.get(route[key]) ?? []), route]);
    for (const some of byNode.values()) {
      const other = (route) => places.get(end ? route.through.at(-2) : route.through[1]);
      some.sort((a, b) => other(a) - other(b));
      const step = Math.min(16, 60 / some.length);
      some.forEach((route, at) => {
        shift.get(route)[end] = (at - (some.length - 1) / 2) * step;
      });
    }
  }
  return shift;
}

function edge(route, places, start, along, point, shifts) {
  const [out, into] = shifts.get(route);
  const { through } = route;
  let [a, b] = [start(through[0].layer) + along, places.get(through[0]) + out];
  let path = `M${text(point(a, b))}`;
  let label = null;
  for (const item of through.slice(1)) {
    const last = item === through.at(-1);
    const [c, d] = [start(item.layer), places.get(item) + (last ? into : 0)];
    const half = (c - a) / 2;
    path += `C${text(point(a + half, b))} ${text(point(c - half, d))} ${text(point(c, d))}`;
    if (last) label = point(a + half, (b + d) / 2);
    if (!last) path += `L${text(point(c + along, d))}`;
    [a, b] = [last ? c : c + along, d];
  }
  return { from: route.from, to: route.to, label: route.label, path, x: label[0], y: label[1] };
}

function text([x, y]) {
  return `${Number(x.toFixed(1))} ${Number(y.toFixed(1))}`;
}
