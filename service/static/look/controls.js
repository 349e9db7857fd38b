// The controls of the attention view: kind, layer, words or tokens, measure.

import { byId, element, renderRadios, setText } from '../common/dom.js';

const KINDS = {
  cross: ['Translation → text', 'Cross-attention'],
  encoder: ['Text → text', 'Self-attention of the encoder'],
  decoder: ['Translation → itself', 'Self-attention of the decoder'],
};

const PLAIN = {
  cross:
    'Each row is a word of the translation. It shows where in the text the model looked while it wrote that word.',
  encoder:
    'Each row is a word of the text. It shows which words the model took into account to understand it.',
  decoder:
    'Each row is a word that was already written. It can look only at what stands before it.',
  all: 'This is the mean of all layers and heads.',
  rollout:
    'Rollout follows attention down through all layers; half of each step is the word itself (Abnar and Zuidema, 2020).',
  value_norms:
    'Each weight is multiplied by the length of the word’s value vector: a word with much weight can still add little (Kobayashi et al., 2020).',
};

const LEVELS = [
  { value: 'word', label: 'Words' },
  { value: 'token', label: 'Tokens', title: 'The pieces that the model works with' },
];

const NORMS = [
  { value: 'weights', label: 'Weights' },
  { value: 'value_norms', label: 'Weights × values' },
];

/** Describes a view in a few words: "Cross-attention, layer 1, head 3". */
export function describe({ kind, layer, head, norm }) {
  const measure = norm === 'value_norms' && layer !== 'rollout' ? ', weights × values' : '';
  const name = { cross: 'Cross-attention', encoder: 'Encoder', decoder: 'Decoder' }[kind];
  if (layer === 'rollout') return `${name}, rollout`;
  if (layer === 'all') return `${name}, mean of all layers and heads${measure}`;
  return `${name}, layer ${layer}, ${head === 'mean' ? 'mean of heads' : `head ${head}`}${measure}`;
}

/** Returns the titles of a heat map's rows and columns. */
export const sidesOf = ({ kind }) =>
  ({
    cross: ['translation', 'text'],
    encoder: ['text', 'text'],
    decoder: ['written', 'written'],
  })[kind];

/** The radio buttons and the menu of sentences above the heat map. */
export class Controls {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    byId('sentence').addEventListener('change', ({ target }) => {
      store.set({ sentence: Number(target.value), query: null });
    });
  }

  /**
   * Shows the choices that a model has.
   * @param {Object} view A view that the model can show.
   * @param {Shape} shape
   * @param {string[]} sentences
   */
  render(view, shape, sentences) {
    const kinds = Object.keys(KINDS).filter((kind) => kind in shape);
    const choices = kinds.map((value) => ({
      value,
      label: KINDS[value][0],
      title: KINDS[value][1],
    }));
    this.#radios('kind', choices, view.kind, { query: null });
    this.#radios('level', LEVELS, view.level, {});
    this.#radios('norm', NORMS, view.norm, {});
    byId('norm').disabled = view.layer === 'rollout';
    this.#layers(view, shape[view.kind].layers);
    this.#sentences(view, sentences);
    const parts = [PLAIN[view.kind], PLAIN[view.layer], !byId('norm').disabled && PLAIN[view.norm]];
    setText(byId('explained'), parts.filter(Boolean).join(' '));
  }

  #radios(name, options, chosen, rest) {
    const choose = (value) => this.store.set({ ...rest, [name]: value });
    renderRadios(byId(name), name, options, chosen, choose);
  }

  #layers({ layer, kind }, count) {
    const numbers = Array.from({ length: count }, (_, n) => ({ value: `${n}`, label: `${n}` }));
    const all = count > 1 ? [{ value: 'all', label: 'All' }] : [];
    const rollout = kind === 'cross' ? [] : [{ value: 'rollout', label: 'Rollout' }];
    renderRadios(
      byId('layer'),
      'layer',
      [...numbers, ...all, ...rollout],
      String(layer),
      (value) => {
        if (value in PLAIN) this.store.set({ layer: value, query: null });
        else this.store.set({ layer: Number(value) });
      },
    );
  }

  #sentences({ sentence }, sentences) {
    byId('sentences').hidden = sentences.length < 2;
    const menu = byId('sentence');
    const key = JSON.stringify(sentences);
    if (menu.dataset.sentences !== key) {
      menu.dataset.sentences = key;
      const options = sentences.map((text, n) =>
        element('option', { value: n, text: `${n + 1}. ${text}` }),
      );
      menu.replaceChildren(...options);
    }
    menu.value = String(sentence);
  }
}
