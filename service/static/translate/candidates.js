// The likeliest tokens at the place of a word of the translation, with their probabilities.

import { Latest, post } from '../common/api.js';
import { byId, element, within } from '../common/dom.js';
import { speaker } from '../common/strings.js';
import { percent, spoken } from '../common/text.js';
import { translate } from '../strings/translate.js';

const say = speaker(translate);
const NUM_TOKENS = 5;

/**
 * A word of a translated sentence.
 * @typedef {Object} WordPlace
 * @property {HTMLElement} node
 * @property {number} sentence
 * @property {number} index Its index in the sentence.
 */

/** A list below the translation, for the word that the reader has chosen. */
export class Candidates {
  #latest = new Latest();
  /** @type {HTMLElement|null} */
  #node = null;

  /** Called when the reader closes the list. */
  closed = () => {};

  constructor() {
    this.root = byId('candidates');
    this.content = within(this.root, 'div');
    within(this.root, 'button').addEventListener('click', () => {
      this.closed();
      this.#node?.focus();
    });
    document.addEventListener('click', (event) => {
      const target = /** @type {Node} */ (event.target);
      const isInside = this.root.contains(target) || this.#node?.parentNode?.contains(target);
      if (!this.root.hidden && !isInside) this.closed();
    });
  }

  /**
   * Shows the likeliest tokens at the place of a word.
   * @param {WordPlace} word
   * @param {{text: string, source: string, target: string, translated: string}} sentence
   */
  async show({ node, index }, { text, source, target, translated }) {
    this.#node = node;
    this.root.hidden = false;
    this.content.replaceChildren(element('p', { text: say('candidatesLoading') }));
    const body = {
      ...{ text, source, target, target_text: translated },
      ...{ kinds: ['cross'], level: 'word', top_k: 1, probabilities: { top_k: NUM_TOKENS } },
    };
    try {
      const reply = await this.#latest.run((signal) => post('attention', body, signal));
      if (reply === undefined) return;
      this.content.replaceChildren(...described(reply.items[0], index, node.textContent ?? ''));
    } catch {
      this.content.replaceChildren(element('p', { text: say('candidatesFailed') }));
    }
  }

  /** Hides the list. */
  hide() {
    this.#latest.cancel();
    this.root.hidden = true;
  }
}

/** Describes the tokens at the first token of a word. */
function described({ target, probabilities }, index, word) {
  const ids = target.ids.map((id) => (Array.isArray(id) ? id : [id]));
  const at = ids.slice(0, index).reduce((sum, tokens) => sum + tokens.length, 0);
  const { log_probs, likeliest } = probabilities;
  const own = likeliest.ids[at].indexOf(ids[index][0]);
  const piece = own < 0 ? word : spoken(likeliest.tokens[at][own]);
  const isPart = ids[index].length > 1;
  const title = say(isPart ? 'candidatesPiece' : 'candidatesWord', {
    ...{ word, piece, share: percent(Math.exp(log_probs[at])) },
  });
  const items = likeliest.tokens[at].map((token, rank) => {
    const share = likeliest.log_probs[at][rank];
    return item(spoken(token), share === null ? 0 : Math.exp(share), rank === own);
  });
  return [element('p', { text: title }), element('ol', {}, ...items)];
}

function item(name, share, isOwn) {
  const filled = element('i', { 'aria-hidden': 'true' });
  filled.style.setProperty('--share', share.toFixed(4));
  const number = element('span', { text: percent(share) });
  const attributes = { class: isOwn ? 'own' : null, 'aria-current': isOwn ? 'true' : null };
  return element('li', attributes, element('span', { text: name }), filled, number);
}
