// The served models, and the attention that they can show.

import { get } from '../common/api.js';

/**
 * Number of layers and heads by kind of attention.
 * @typedef {Object<string, {layers: number, heads: number}>} Shape
 */

/** The models of GET /v1/models, requested again until the wanted model is loaded. */
export class Models {
  #list = [];

  /** Requests the list of models; returns the names of the models that only embed. */
  async embedders() {
    this.#list = (await get('v1/models')).data;
    const embedders = this.#list.filter((model) => model.task === 'embed' && !model.alias_of);
    return embedders.map(({ id }) => id);
  }

  /** Returns the model that embeds or translates a text; undefined if there is none. */
  async find(read, signal) {
    let model = this.#served(read);
    if (!model?.attention) {
      this.#list = (await get('v1/models', signal)).data;
      model = this.#served(read);
    }
    return model;
  }

  /** Returns the attention that aligns the words of a translation; null if it is not known. */
  alignment(translation) {
    return this.#served(translation)?.alignment ?? null;
  }

  /** Finds a loaded model. As in the server, a single-pair model precedes a multilingual one. */
  #served({ task, model: name, source, target }) {
    const wanted = task === 'embed' ? 'embed' : 'translate'; // null while it loads
    const models = this.#list.filter((model) => model.task === wanted);
    if (task === 'embed') return models.find(({ id }) => name === null || id === name);
    const isIts = (model) => model.source === source && model.target === target;
    const hasIt = (model) => model.sources.includes(source) && model.targets.includes(target);
    return models.find(isIts) ?? models.find(hasIt);
  }
}

/**
 * Replaces each choice of a view that a model does not have by a choice that the model has.
 * @param {Object} view
 * @param {Object} model A loaded model of GET /v1/models.
 * @param {number} numSentences
 * @returns {Object} The view, and in `sizes` the numbers of its layers and of the heads of each.
 */
export function settled(view, model, numSentences) {
  const shape = model.attention;
  const kind = view.kind in shape ? view.kind : Object.keys(shape)[0];
  const sizes = shape[kind];
  const sentence = Math.min(view.sentence, numSentences - 1);
  return { ...view, kind, sentence, sizes, ...settledHead({ ...view, kind }, sizes, model) };
}

function settledHead({ kind, layer, head }, { layers, heads }, { alignment }) {
  const isFirst = layer === null && head === null;
  if (isFirst && kind === 'cross' && isTrained(alignment)) return headOf(alignment);
  if (layer === 'all' || (layer === 'rollout' && kind !== 'cross')) return { layer, head: 'mean' };
  return {
    layer: Math.min(numberOr(layer, layers), layers - 1),
    head: numberOr(head, heads) < heads ? head : 'mean',
  };
}

/** Reports whether a head was trained to align words; its rows belong to the predicted tokens. */
const isTrained = (alignment) => alignment?.shift === 0;

const headOf = ({ layer, head }) => ({ layer, head });

const numberOr = (value, other) => (typeof value === 'number' ? value : other);
