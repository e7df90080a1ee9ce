// @ts-check
// The vertices of a job as the graph shows them.

/** @import { PlanInfo, PlanInput, PlanNode } from "../core/answers.js" */

/** @typedef {"source" | "sink" | "keyed" | "operator"} VertexKind */
/**
 * A node of the plan with properties derived from its edges: `isEnd` if no other vertex reads from it.
 *
 * @typedef {PlanNode & { kind: VertexKind, guarantees: string[], isEnd: boolean }} PlanVertex
 */
/**
 * Called when the user selects a vertex with a button.
 *
 * @typedef {(vertex: PlanVertex, button: HTMLElement) => void} OpenVertex
 */

/**
 * @param {PlanInfo} plan
 * @returns {PlanVertex[]}
 */
export function verticesOf(plan) {
  const read = new Set(plan.nodes.flatMap((node) => node.inputs.map((input) => input.id)));
  return plan.nodes.map((node) => {
    const guarantees = [...new Set(node.operators.flatMap((one) => (one.guarantee ? [one.guarantee] : [])))];
    const kind =
      node.inputs.length === 0 ? "source" : guarantees.length ? "sink" : node.operators[0].keyed ? "keyed" : "operator";
    return { ...node, kind, guarantees, isEnd: !read.has(node.id) };
  });
}

/**
 * A description of how records are sent along an edge.
 *
 * @param {PlanInput} input
 */
export function shipOf(input) {
  return input.side_output ? `${input.ship_strategy}, side output ${input.side_output}` : input.ship_strategy;
}
