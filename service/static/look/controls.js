// The controls of the attention view: kind, layer, words or tokens, measure.

import { byId, fillMenu, renderRadios, setText } from '../common/dom.js';
import { DEFAULTS, UNPINNED } from '../common/state.js';
import { speaker } from '../common/strings.js';
import { look } from '../strings/look.js';

const say = speaker(look);

const KINDS = ['cross', 'encoder', 'decoder'];

/** The choices that have a sentence of explanation. */
const EXPLAINED = [...KINDS, 'all', 'rollout', 'value_norms'];

const LEVELS = [
  { value: 'word', label: say('words') },
  { value: 'token', label: say('tokens'), title: say('tokensTitle') },
];

const NORMS = [
  { value: 'weights', label: say('weights') },
  { value: 'value_norms', label: say('valueNorms') },
];

/** Explains the choices of a view. */
function explained({ kind, layer, norm }, isMeasured) {
  const chosen = [kind, layer, isMeasured ? norm : null];
  return chosen.filter((choice) => EXPLAINED.includes(choice)).map((name) => say(`plain_${name}`));
}

/** The radio buttons and the menu of sentences above the heat map. */
export class Controls {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    byId('sentence').addEventListener('change', ({ target }) => {
      store.set({ sentence: Number(target.value), ...UNPINNED });
    });
  }

  /**
   * Shows the choices that a model has.
   * @param {Object} view A view that the model can show.
   * @param {Shape} shape
   * @param {string[]} sentences
   */
  render(view, shape, sentences) {
    const choices = KINDS.filter((kind) => kind in shape).map((value) => ({
      value,
      label: say(`kind_${value}`),
      title: say(`selfAttention_${value}`),
    }));
    this.#radios('kind', choices, view.kind, { ...UNPINNED });
    this.#radios('level', LEVELS, view.level, {});
    this.#radios('norm', NORMS, view.norm, {});
    byId('norm').disabled = view.layer === 'rollout';
    if (view.level !== DEFAULTS.level || view.norm !== DEFAULTS.norm) byId('expert').open = true;
    this.#layers(view, shape[view.kind].layers);
    this.#sentences(view, sentences);
    setText(byId('explained'), explained(view, !byId('norm').disabled).join(' '));
  }

  #radios(name, options, chosen, rest) {
    const choose = (value) => this.store.set({ ...rest, [name]: value });
    renderRadios(byId(name), name, options, chosen, choose);
  }

  #layers({ layer, kind }, count) {
    const numbers = Array.from({ length: count }, (_, n) => ({ value: `${n}`, label: `${n + 1}` }));
    const all = count > 1 ? [{ value: 'all', label: say('all'), title: say('allTitle') }] : [];
    const through = { value: 'rollout', label: say('rollout'), title: say('rolloutTitle') };
    const rollout = kind === 'cross' ? [] : [through];
    renderRadios(byId('layer'), 'layer', [...numbers, ...all, ...rollout], String(layer), (value) => {
      this.store.set({ layer: EXPLAINED.includes(value) ? value : Number(value) });
    });
  }

  #sentences({ sentence }, sentences) {
    byId('sentences').hidden = sentences.length < 2;
    const entries = sentences.map((text, n) => [String(n), `${n + 1}. ${text}`]);
    fillMenu(byId('sentence'), entries, String(sentence));
  }
}
