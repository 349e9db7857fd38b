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

/** Replaces each choice of a view that a model does not have by a choice that the model has. */
export function settled(view, shape, numSentences) {
  const kind = view.kind in shape ? view.kind : Object.keys(shape)[0];
  const { layers, heads } = shape[kind];
  const sentence = Math.min(view.sentence, numSentences - 1);
  const isMerged = view.layer === 'all' || (view.layer === 'rollout' && kind !== 'cross');
  const layer = isMerged ? view.layer : Math.min(numberOr(view.layer, layers), layers - 1);
  const head = isMerged || numberOr(view.head, heads) >= heads ? 'mean' : view.head;
  const query = head === 'mean' ? null : view.query;
  return { ...view, kind, sentence, layer, head, query };
}

const numberOr = (value, other) => (typeof value === 'number' ? value : other);
