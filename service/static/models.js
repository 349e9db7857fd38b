// What the served models have to show.

import { get } from './api.js';

/**
 * How many layers and heads, by kind of attention.
 * @typedef {Object<string, {layers: number, heads: number}>} Shape
 */

/** The models of GET /v1/models, asked for again until the one that is wanted has loaded. */
export class Models {
  #list = [];

  /** The names of the models that embed and do nothing else, of a list that is asked for now. */
  async embedders() {
    this.#list = (await get('v1/models')).data;
    return this.#list.filter(({ task }) => task === 'embed').map(({ id }) => id);
  }

  /** The model that embeds or translates what was read; undefined where there is none. */
  async find(read, signal) {
    let model = this.#served(read);
    if (!model?.attention) {
      this.#list = (await get('v1/models', signal)).data;
      model = this.#served(read);
    }
    return model;
  }

  /** A model of the pair alone goes before one of many languages, as it does in the server. */
  #served({ task, model: name, source, target }) {
    const wanted = task === 'embed' ? 'embed' : 'translate'; // one that still loads has no task
    const models = this.#list.filter((model) => model.task === wanted);
    if (task === 'embed') return models.find(({ id }) => name === null || id === name);
    const isIts = (model) => model.source === source && model.target === target;
    const hasIt = (model) => model.sources.includes(source) && model.targets.includes(target);
    return models.find(isIts) ?? models.find(hasIt);
  }
}

/** A view as a model can show it: what it does not have gives way to what it has. */
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
